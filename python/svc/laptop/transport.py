"""The platform's HTTP behaviour on a laptop, with urllib: authentication, redirects, retries, decompression.

It follows the same rules as the platform, so that what works here works there, with one difference: it also connects to
private addresses.
"""

from __future__ import annotations

import gzip
import http.client
import socket
import ssl
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Any, Callable
from urllib.parse import urljoin, urlsplit

from svc.errors import ConfigError
from svc.laptop.authentication import Authenticator
from svc.log import Log
from svc.responses import Headers

MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_REDIRECTS = 5
MAX_WAIT_SECONDS = 300.0
PARALLEL = 8
_SAFE = ("GET", "HEAD", "OPTIONS")
_ALWAYS_AGAIN = (429, 503)
_AGAIN_IF_SAFE = (502, 504)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class LaptopTransport:
    def __init__(
        self,
        authentication: Mapping[str, Any] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        log: Log | None = None,
        keep_refresh_token: Callable[[str], None] = lambda token: None,
    ) -> None:
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._sleep = sleep
        self._log = log
        self._authenticator = Authenticator(authentication or {}, self._send, keep_refresh_token)

    def request(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if len(requests) == 1:
            return [self._answer(requests[0])]
        with ThreadPoolExecutor(min(PARALLEL, len(requests))) as pool:
            return list(pool.map(self._answer, requests))

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        tries = max(int(request.get("retries") or 0), 0) + 1
        safe = request["method"] in _SAFE
        for attempt in range(tries):
            wait = _backoff(attempt)
            try:
                answer = self._authenticated(request)
                again = answer["status"] in _ALWAYS_AGAIN or (safe and answer["status"] in _AGAIN_IF_SAFE)
                asked = _retry_after(Headers(answer["headers"]))
                wait = wait if asked is None else asked
            except _Failure as failure:
                answer = {"error": {"kind": failure.kind, "message": str(failure)}}
                again = safe and failure.kind == "connection"
            except ConfigError as error:
                return {"error": {"kind": "auth", "message": str(error)}}
            if not again or attempt == tries - 1 or wait > MAX_WAIT_SECONDS:
                break
            if self._log is not None:
                self._log.info(_describe_wait(wait, request["url"], answer))
            self._sleep(wait)
        return answer

    def _authenticated(self, request: dict[str, Any]) -> dict[str, Any]:
        if not request.get("authenticate", True):
            return self._follow(request, {})
        answer = self._follow(request, self._authenticator.headers())
        if answer["status"] == 401 and self._authenticator.renew():
            answer = self._follow(request, self._authenticator.headers())
        return answer

    def _follow(self, request: dict[str, Any], secret: Mapping[str, str]) -> dict[str, Any]:
        url, method, body = request["url"], request["method"], request["body"]
        headers = {**secret, **request["headers"]}
        origin = urlsplit(url)[:2]
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._send(method, url, headers, body, request.get("timeout"))
            location = Headers(answer["headers"]).get("location")
            if answer["status"] not in (301, 302, 303, 307, 308) or not location:
                return answer
            url = urljoin(url, location)
            if urlsplit(url)[:2] != origin:
                # Another host must not learn the credentials.
                private = {"authorization", "cookie", *(name.lower() for name in secret)}
                headers = {name: value for name, value in headers.items() if name.lower() not in private}
            if answer["status"] == 303 or (answer["status"] in (301, 302) and method == "POST"):
                method, body = "GET", None
        raise _Failure("connection", f"{request['url']} redirects more than {MAX_REDIRECTS} times")

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float | None
    ) -> dict[str, Any]:
        if urlsplit(url).scheme not in ("http", "https"):
            raise _Failure("refused", f"only http and https addresses can be requested, not {url!r}")
        sent = urllib.request.Request(url, data=body, method=method)
        for name, value in {"Accept-Encoding": "gzip", "User-Agent": "sluice", **headers}.items():
            sent.add_unredirected_header(name, value)
        try:
            with self._opener.open(sent, timeout=timeout or 30.0) as response:
                return _read(response, url)
        except urllib.error.HTTPError as error:
            with error:
                return _read(error, url)
        except (socket.timeout, TimeoutError) as error:
            raise _Failure("timeout", f"{url} did not answer in {timeout or 30.0:g} s") from error
        except urllib.error.URLError as error:
            raise _Failure(_kind_of(error.reason), f"{url}: {error.reason}") from error
        except (OSError, http.client.HTTPException, ssl.SSLError) as error:
            raise _Failure("connection", f"{url}: {error or type(error).__name__}") from error


class _Failure(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _kind_of(reason: object) -> str:
    if isinstance(reason, (socket.timeout, TimeoutError)):
        return "timeout"
    unknown = isinstance(reason, socket.gaierror) and reason.errno == socket.EAI_NONAME
    return "unknown_host" if unknown else "connection"


def _read(response: Any, url: str) -> dict[str, Any]:
    raw = response.read(MAX_BODY_BYTES + 1)
    encoding = (response.headers.get("Content-Encoding") or "").lower()
    try:
        if encoding in ("gzip", "x-gzip") and raw:
            raw = gzip.decompress(raw)
        elif encoding == "deflate" and raw:
            raw = zlib.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise _Failure("connection", f"{url}: the answer is not {encoding}: {error}") from error
    if len(raw) > MAX_BODY_BYTES:
        raise _Failure("limit", f"the answer of {url} is over {MAX_BODY_BYTES} bytes")
    status = response.status if hasattr(response, "status") else response.code
    return {"status": status, "headers": [list(pair) for pair in response.headers.items()], "body": raw, "url": url}


def _retry_after(headers: Headers) -> float | None:
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError):
            return None
    return max(seconds, 0.0)


def _describe_wait(wait: float, url: str, answer: dict[str, Any]) -> str:
    if "error" in answer:
        return f"{answer['error']['message']}: waiting {wait:g} s before the next attempt"
    asked = _retry_after(Headers(answer["headers"])) is not None
    why = ", because the server asked for it" if asked else " before the next attempt"
    return f"{urlsplit(url).netloc} answered {answer['status']}: waiting {wait:g} s{why}"


def _backoff(attempt: int) -> float:
    return float(min(0.5 * 2**attempt, 30.0))
