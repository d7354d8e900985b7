"""`self.log`: lines that the owner of a run reads."""

from __future__ import annotations

import sys
import traceback
from typing import Any, Callable

__all__ = ["Log", "route_logging"]

Sink = Callable[[str, str], None]


def _write_to_stderr(level: str, message: str) -> None:
    print(f"{level}: {message}", file=sys.stderr)


class Log:
    """Writes lines with a level.

    ``self.log.info("read %s rows", n)``, or ``self.log("read", n, "rows")`` as one would call print.
    """

    def __init__(self, sink: Sink | None = None) -> None:
        self._sink = sink or _write_to_stderr

    def __call__(self, *values: Any) -> None:
        self._sink("info", " ".join(str(value) for value in values))

    def debug(self, message: Any, *args: Any) -> None:
        self._write("debug", message, args)

    def info(self, message: Any, *args: Any) -> None:
        self._write("info", message, args)

    def warning(self, message: Any, *args: Any) -> None:
        self._write("warning", message, args)

    warn = warning

    def error(self, message: Any, *args: Any) -> None:
        self._write("error", message, args)

    def exception(self, message: Any, *args: Any) -> None:
        """An error line followed by the traceback of the exception being handled."""
        self._write("error", f"{_format(message, args)}\n{traceback.format_exc().rstrip()}", ())

    def _write(self, level: str, message: Any, args: tuple[Any, ...]) -> None:
        self._sink(level, _format(message, args))


def _format(message: Any, args: tuple[Any, ...]) -> str:
    if not args:
        return str(message)
    try:
        return str(message) % args
    except (TypeError, ValueError):
        # A log line with the wrong placeholders must not end a run.
        return " ".join(str(part) for part in (message, *args))


def route_logging(log: Log) -> None:
    """Sends what the author writes with the `logging` module to the same place."""
    import logging

    # Message and, where there is one, the traceback.
    formatter = logging.Formatter("%(message)s")

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            level = record.levelname.lower()
            write = {"debug": log.debug, "info": log.info, "warning": log.warning}.get(level, log.error)
            write(formatter.format(record))

    root = logging.getLogger()
    root.handlers[:] = [Handler()]
    root.setLevel(logging.INFO)
