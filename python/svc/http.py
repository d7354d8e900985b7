"""`self.http`: requests that the platform sends for a source.

A cell has no network. The client hands its requests to a **transport**, an object with one method:

    transport.request(requests: list[dict]) -> list[dict]

It sends a batch, all at once where there are several, and returns as many answers in the same order.

    request   {"method": str, "url": str, "headers": {name: value}, "body": bytes or None,
               "timeout": seconds or None, "retries": int, "authenticate": bool}
    answer    {"status": int, "headers": [[name, value], …], "body": bytes, "url": str}
              or {"error": {"kind": connection | unknown_host | timeout | refused | limit | auth, "message": str}}

The transport follows redirects, decompresses, applies the source's authentication (unless `authenticate` is false or
the request carries an Authorization header of its own), and tries again as often as `retries` says: after 429 and 503,
waiting as Retry-After says, and for GET, HEAD and OPTIONS also after 502, 504 and a broken connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from svc.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    HttpError,
    LimitExceeded,
    Refused,
    StatusError,
    Timeout,
    UnknownHost,
    from_answer,
)
from svc.pagination import Pagination
from svc.responses import Headers, Response
from svc.signing import basic_credentials, hmac_digest, hmac_signature, jwt_decode, jwt_encode
from svc.source.records import to_json
from svc.urls import Params, add_params, has_scheme, parse_qs, quote, unquote, urlencode, urljoin, urlsplit

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from svc.options import Options, QueryOptions, RequestOptions

__all__ = [
    "AuthenticationFailed",
    "ConnectionFailed",
    "Headers",
    "HttpClient",
    "HttpError",
    "LimitExceeded",
    "Refused",
    "Response",
    "StatusError",
    "Timeout",
    "UnknownHost",
    "add_params",
    "basic_credentials",
    "hmac_digest",
    "hmac_signature",
    "jwt_decode",
    "jwt_encode",
    "parse_qs",
    "quote",
    "unquote",
    "urlencode",
    "urljoin",
    "urlsplit",
]

# How many answers `get_many` holds in memory at once.
BATCH = 32


class Transport(Protocol):
    def request(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]: ...


class HttpClient(Pagination):
    """Sends requests. Its calls look like those of the `requests` library.

    ``self.http.base_url`` is put before relative addresses, ``self.http.headers`` go with every request,
    ``self.http.timeout`` (seconds) and ``self.http.retries`` apply where a call gives none.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        base_url: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        retries: int = 3,
    ) -> None:
        self._transport = transport
        self.base_url = base_url
        self.headers: dict[str, str] = dict(headers or {})
        self.timeout = timeout
        self.retries = retries

    def get(self, url: str, params: Params | None = None, **options: Unpack[Options]) -> Response:
        """A GET request; ``options`` as in `request`."""
        return self.request("GET", url, params=params, **options)

    def post(self, url: str, data: Any = None, json: Any = None, **options: Unpack[QueryOptions]) -> Response:
        """A POST request; ``options`` as in `request`."""
        return self.request("POST", url, data=data, json=json, **options)

    def put(self, url: str, data: Any = None, json: Any = None, **options: Unpack[QueryOptions]) -> Response:
        return self.request("PUT", url, data=data, json=json, **options)

    def patch(self, url: str, data: Any = None, json: Any = None, **options: Unpack[QueryOptions]) -> Response:
        return self.request("PATCH", url, data=data, json=json, **options)

    def delete(self, url: str, **options: Unpack[RequestOptions]) -> Response:
        return self.request("DELETE", url, **options)

    def head(self, url: str, **options: Unpack[RequestOptions]) -> Response:
        return self.request("HEAD", url, **options)

    def request(self, method: str, url: str, **options: Unpack[RequestOptions]) -> Response:
        """Sends one request and returns its answer, whatever the status: see `Response.raise_for_status`.

        params      query parameters, a dict or a list of pairs; a list repeats its name, None is left out
        json        a body sent as JSON; dates, Decimal and UUID are understood
        data        a body sent as a form (dict or pairs) or as it is (str or bytes)
        headers     added to the client's own
        timeout     seconds for the whole answer
        retries     how often to try again
        auth        (username, password) for basic authentication, a function that takes the request's headers and
                    sets more, or False to send the request without the source's authentication
        """
        response: Response = self._send([self._build(method, url, **options)])[0]
        return response

    @overload
    def get_many(self, requests: Iterable[Any], **options: Unpack[RequestOptions]) -> list[Response]: ...

    @overload
    def get_many(
        self, requests: Iterable[Any], *, return_errors: Literal[True], **options: Unpack[RequestOptions]
    ) -> list[Response | HttpError]: ...

    def get_many(self, requests: Iterable[Any], *, return_errors: bool = False, **options: Any) -> list[Any]:
        """Sends many requests at once and returns their answers in the same order.

        Each is an address or a dict ``{"url": …, "params": …, "method": …}`` of what `request` takes; ``options``
        apply to all. The first error is raised; with ``return_errors`` it stands in the list instead.
        """
        built = []
        for each in requests:
            given = {"url": each} if isinstance(each, str) else dict(each)
            built.append(self._build(given.pop("method", "GET"), given.pop("url"), **{**options, **given}))
        answers: list[Any] = []
        for start in range(0, len(built), BATCH):
            answers.extend(self._send(built[start : start + BATCH], return_errors))
        return answers

    def _send(self, requests: list[dict[str, Any]], return_errors: bool = False) -> list[Any]:
        results: list[Any] = []
        for request, answer in zip(requests, self._transport.request(requests)):
            error = answer.get("error")
            if error is None:
                url = answer.get("url") or request["url"]
                results.append(Response(answer["status"], answer["headers"], answer["body"], url))
                continue
            exception = from_answer(error, request["url"])
            if not return_errors:
                raise exception
            results.append(exception)
        return results

    def _build(
        self,
        method: str,
        url: str,
        *,
        params: Any = None,
        json: Any = None,
        data: Any = None,
        headers: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        auth: Any = None,
        **unknown: Any,
    ) -> dict[str, Any]:
        if unknown:
            raise TypeError(
                f"unknown option {', '.join(map(repr, unknown))}: a request takes params, json, data, headers, "
                "timeout, retries and auth"
            )
        if not isinstance(url, str):
            raise TypeError(f"url must be a string, not {type(url).__name__}")
        if self.base_url and not has_scheme(url):
            url = f"{self.base_url.rstrip('/')}/{url.lstrip('/')}" if url else self.base_url
        sent: dict[str, str] = {}
        if self.headers or headers:
            given = {**self.headers, **(headers or {})}
            sent = {str(name): str(value) for name, value in given.items() if value is not None}
        body = _encode_body(json, data, sent)
        if isinstance(auth, (tuple, list)):
            sent["Authorization"] = basic_credentials(*auth)
        elif callable(auth):
            auth(sent)
        for name, value in sent.items():
            if "\r" in name + value or "\n" in name + value:
                raise ValueError(f"header {name!r} contains a line break")
        return {
            "method": method.upper(),
            "url": add_params(url, params),
            "headers": sent,
            "body": body,
            "timeout": self.timeout if timeout is None else float(timeout),
            "retries": self.retries if retries is None else int(retries),
            "authenticate": auth is not False and not _has(sent, "authorization"),
        }


def _encode_body(json: Any, data: Any, headers: dict[str, str]) -> bytes | None:
    if json is not None:
        if not _has(headers, "content-type"):
            headers["Content-Type"] = "application/json"
        return to_json(json)
    if data is None:
        return None
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if not _has(headers, "content-type"):
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    return urlencode(data).encode()


def _has(headers: Mapping[str, str], name: str) -> bool:
    return any(each.lower() == name for each in headers)
