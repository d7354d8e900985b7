"""How an author's code reaches the host: print, `self.http` and `self.authentication`."""

from cell import protocol
from svc.source.base import build_settings, find_class
from svc.source.models import SourceAuth

MAX_LOG_BYTES = 60_000


class LogStream:
    """print and sys.stderr, line by line, so that nothing written before a crash or an endless loop is lost."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, write, level):
        self._write_line = write
        self._level = level
        self._rest = ""

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._rest += text
        if "\n" in text or len(self._rest) > MAX_LOG_BYTES:
            lines, _, self._rest = self._rest.rpartition("\n")
            if not lines and len(self._rest) > MAX_LOG_BYTES:
                lines, self._rest = self._rest, ""
            self._write_line(self._level, lines)
        return len(text)

    def flush(self):
        pass

    def finish(self):
        if self._rest:
            self._write_line(self._level, self._rest)
            self._rest = ""

    def isatty(self):
        return False

    def writable(self):
        return True


class Transport:
    """`self.http` sends its requests through here to the host, which performs them."""

    def __init__(self, channel):
        self._channel = channel

    def request(self, requests):
        parts = []
        for request in requests:
            parts += protocol.pack_request(request)
        self._channel.send(protocol.HTTP, *parts)
        return protocol.unpack_answers(self._channel.receive_answer()[1])


class DelayedAuthentication:
    """`self.authentication`: the secrets are fetched into this process only when an author reads them."""

    delayed = True

    def __init__(self, cell, cls, type):
        self.type = type
        self._cell = cell
        self._cls = cls
        self._real = None

    def _load(self):
        if self._real is None:
            given = {"type": self.type, "params": self._cell.request_secrets()}
            self._real = build_settings(find_class(self._cls, SourceAuth), given, True)
        return self._real

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._load(), name)

    def __getitem__(self, name):
        return self._load()[name]

    def __iter__(self):
        return iter(self._load())

    def __len__(self):
        return len(self._load())

    def __contains__(self, name):
        return name in self._load()

    def __repr__(self):
        return f"<authentication: {self.type}>"
