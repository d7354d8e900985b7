"""`python -m svc`: validate, preview, check and list the streams of a source on one's own machine."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from svc.http import HttpClient
from svc.laptop.transport import LaptopTransport
from svc.log import Log, route_logging
from svc.source.base import AbstractSource, build_source
from svc.source.loader import load_source
from svc.source.records import RecordEncoder, each_record


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        return code
    except BrokenPipeError:
        return 0
    except Exception as error:
        _print_own_lines(error, options.file)
        return 1


def _parser() -> argparse.ArgumentParser:
    about = "Write and try a custom source on your own machine."
    parser = argparse.ArgumentParser(prog="python -m svc", description=about)
    commands = parser.add_subparsers(required=True, metavar="command")

    def add(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("file", help="the Python file of the source")
        command.set_defaults(run=run)
        return command

    command = add("validate", _validate, "say what is wrong with the code, without running it")
    command.add_argument("--modules", default="", help="what CELL_MODULES of the service allows: pandas,pydantic")
    for command in (
        add("preview", _preview, "print records of a stream as lines of JSON"),
        add("check", _check, "try the credentials with check_connection"),
        add("streams", _streams, "print the names of the streams"),
    ):
        command.add_argument("--config", metavar="FILE", help="a JSON file with the settings for self.config")
        command.add_argument(
            "--auth-type",
            default="none",
            help="api_key, bearer, basic, oauth2_client_credentials, oauth2_refresh_token …",
        )
        command.add_argument("--auth-param", action="append", default=[], metavar="NAME=VALUE", help="repeat for each")
        command.add_argument(
            "--refresh-token", metavar="FILE", help="holds the refresh token: read, and written when it is replaced"
        )
        command.add_argument("--state", metavar="FILE", help="a JSON file for self.state: read, then written")
        if command.prog.endswith("preview"):
            command.add_argument("--stream", help="the stream to read; by default the first")
            command.add_argument("--max-records", type=int, default=10, help="10 by default, 0 for all")
    return parser


def _build(options: Any) -> AbstractSource:
    path = Path(options.file)
    cls = load_source(path.read_text("utf-8"), str(path))
    params = dict(each.partition("=")[::2] for each in options.auth_param)
    if options.refresh_token:
        params["refresh_token"] = Path(options.refresh_token).read_text("utf-8").strip()
    authentication = {"type": options.auth_type, "params": params}
    log = Log()
    route_logging(log)
    return build_source(
        cls,
        config=json.loads(Path(options.config).read_text("utf-8")) if options.config else {},
        authentication=authentication,
        http=HttpClient(
            LaptopTransport(
                authentication, log=log, keep_refresh_token=lambda token: _keep_refresh_token(options, token)
            )
        ),
        state=_read_state(options),
        log=log,
        strict=options.run is not _streams,
    )


def _validate(options: Any) -> int:
    try:
        from cell.modules import ALLOWED_MODULES
        from cell.validator import validate
    except ImportError:
        print(
            "validation needs a checkout of the service: run this in its folder python, or use `sluice source push`",
            file=sys.stderr,
        )
        return 2
    more = [name.strip() for name in options.modules.split(",") if name.strip()]
    report = validate(Path(options.file).read_text("utf-8"), ALLOWED_MODULES, None, more)
    for item in (*report["errors"], *report["warnings"]):
        # Columns count from 1 here, as editors and other tools count them.
        print(f"{options.file}:{item['line']}:{item['column'] + 1}: {item['severity']}: {item['message']}")
    if not report["valid"]:
        return 1
    streams = "known when it runs" if report["streams_need_run"] else ", ".join(report["extracted_streams"])
    print(f"{report['extracted_source_name']}: valid; streams: {streams}")
    return 0


def _preview(options: Any) -> int:
    source = _build(options)
    streams = list(source.get_streams())
    stream = options.stream or (streams[0] if streams else None)
    if stream not in streams:
        print(f"unknown stream {stream!r}; the source has: {', '.join(streams)}", file=sys.stderr)
        return 1
    encoder = RecordEncoder(source.log)
    records = each_record(source.get_records(stream))
    count = 0
    for item in itertools.islice(records, options.max_records or None):
        print(encoder.preview_line(item).decode())
        count += 1
    records.close()
    _write_state(options, source, encoder)
    print(f"{count} records of {stream}", file=sys.stderr)
    return 0


def _check(options: Any) -> int:
    works = _build(options).check_connection()
    print("connection works" if works else "connection does not work")
    return 0 if works else 1


def _streams(options: Any) -> int:
    for name in _build(options).get_streams():
        print(name)
    return 0


def _read_state(options: Any) -> dict[str, Any]:
    if not options.state or not Path(options.state).exists():
        return {}
    state: dict[str, Any] = json.loads(Path(options.state).read_text("utf-8"))
    return state


def _keep_refresh_token(options: Any, token: str) -> None:
    if not options.refresh_token:
        print(
            "the provider has replaced the refresh token, so the one you gave no longer works; "
            "to keep the new one, give it in a file with --refresh-token FILE",
            file=sys.stderr,
        )
        return
    path = Path(options.refresh_token)
    fresh = path.with_name(f"{path.name}.new")
    # Whole or not at all, and readable by its owner alone.
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{token}\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def _write_state(options: Any, source: AbstractSource, encoder: RecordEncoder) -> None:
    if options.state:
        Path(options.state).write_bytes(encoder.encode_value(source.state) + b"\n")


def _print_own_lines(error: BaseException, file: str) -> None:
    """The error, with the lines of the author's file that led to it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    print("".join(traceback.format_list(frames)), end="", file=sys.stderr)
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
