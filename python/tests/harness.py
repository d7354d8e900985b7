"""Shared by the tests: the import path, a local HTTP server, and sources built as the platform builds them."""

from __future__ import annotations

import json
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

LOCAL = ("localhost", "127.0.0.1", "::1", "")


def keep_local(event: str, arguments: tuple) -> None:
    """Tests look up no name and connect to no address outside this machine."""
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    if host not in LOCAL and host is not None:
        raise AssertionError(f"a test reaches for {host!r}; tests use only addresses of this machine")


sys.addaudithook(keep_local)

from svc.http import HttpClient  # noqa: E402
from svc.laptop.transport import LaptopTransport  # noqa: E402
from svc.log import Log  # noqa: E402
from svc.source.base import build_source  # noqa: E402
from svc.source.loader import load_source  # noqa: E402


class Call:
    """A request as the server saw it."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        address = urlsplit(handler.path)
        self.method = handler.command
        self.path = address.path
        self.query = dict(parse_qsl(address.query, keep_blank_values=True))
        self.pairs = parse_qsl(address.query, keep_blank_values=True)
        self.headers = handler.headers
        self.body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))

    def json(self):
        return json.loads(self.body)


class Server:
    """Answers with `routes[path](call)`, giving a JSON value or (status, headers, bytes). Notes every call."""

    def __init__(self, routes: dict) -> None:
        self.routes = routes
        self.calls: list[Call] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Headers and body leave in one packet: two would wait for each other.
            wbufsize = -1

            def answer(self) -> None:
                call = Call(self)
                server.calls.append(call)
                route = server.routes.get(call.path, lambda _: (404, {}, b"not found"))
                result = route(call)
                if not isinstance(result, tuple):
                    result = (200, {"Content-Type": "application/json"}, json.dumps(result).encode())
                status, headers, body = result
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = answer

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class LogLines(Log):
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        super().__init__(lambda level, message: self.lines.append((level, message)))


class ServerCase(unittest.TestCase):
    """Tests that talk to a server of their own; waits between tries are noted instead of slept."""

    def serve(self, routes: dict) -> Server:
        server = Server(routes)
        self.addCleanup(server.close)
        return server

    def client(self, authentication: dict | None = None, **options) -> HttpClient:
        self.waits: list[float] = []
        return HttpClient(LaptopTransport(authentication, sleep=self.waits.append), **options)

    def build(self, code: str, *, config=None, authentication=None, state=None, log=None):
        return build_source(
            load_source(code),
            config=config or {},
            authentication=authentication or {"type": "none", "params": {}},
            http=self.client(authentication),
            state={} if state is None else state,
            log=log or LogLines(),
        )


def note(sentence: str) -> None:
    """What was not tested and why; the run of all tests shows these lines."""
    print(f"\nnote: {sentence}", file=sys.stderr)


def example(name: str) -> str:
    return (EXAMPLES / f"{name}.py").read_text("utf-8")


def echo(call):
    """An answer that holds the request."""
    headers = {name.lower(): value for name, value in call.headers.items()}
    return {"method": call.method, "pairs": call.pairs, "headers": headers, "body": call.body.decode()}
