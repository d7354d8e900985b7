"""The answer to a request. Re-exported by `svc.http`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from svc.errors import HttpError, StatusError
from svc.urls import urljoin

# How much of a body is shown in an error.
SHOWN = 200
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_LINK = re.compile(r"<([^>]*)>([^<]*)")
_LINK_PARAM = re.compile(r';\s*([\w!#$&+.^`|~*-]+)\s*=\s*(?:"([^"]*)"|([^\s;,"]+))')
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)


class Headers(Mapping[str, str]):
    """Header names are compared without case. A header sent several times is one value joined by commas."""

    __slots__ = ("_values",)

    def __init__(self, pairs: Any = ()) -> None:
        self._values: dict[str, tuple[str, str]] = {}
        for name, value in pairs.items() if isinstance(pairs, Mapping) else pairs:
            key = str(name).lower()
            held = self._values.get(key)
            self._values[key] = (str(name), str(value)) if held is None else (held[0], f"{held[1]}, {value}")

    def __getitem__(self, name: str) -> str:
        return self._values[str(name).lower()][1]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return str(name).lower() in self._values

    def __repr__(self) -> str:
        return f"Headers({dict(self)!r})"


class Response:
    """An answer, complete and decompressed."""

    __slots__ = ("status_code", "_headers", "content", "url")

    def __init__(self, status_code: int, headers: Any = (), content: bytes = b"", url: str = "") -> None:
        self.status_code = status_code
        self._headers = headers
        self.content = content
        self.url = url

    @property
    def headers(self) -> Headers:
        """The headers of the answer. Parsed on first access, because most sources never read them."""
        if not isinstance(self._headers, Headers):
            self._headers = Headers(self._headers)
        return self._headers

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status_code < 400

    @property
    def text(self) -> str:
        """The body decoded by the charset of its Content-Type, else as UTF-8; wrong bytes become U+FFFD."""
        charset = _CHARSET.search(self.headers.get("content-type", ""))
        try:
            return self.content.decode(charset.group(1) if charset else "utf-8", "replace")
        except LookupError:
            return self.content.decode("utf-8", "replace")

    def json(self, **options: Any) -> Any:
        """The body parsed as JSON. ``options`` go to `json.loads`: ``parse_float=Decimal`` keeps every digit.

        A body that is not JSON raises an `HttpError` that says what the server sent instead; for a status of 400 or
        above it is a `StatusError`.
        """
        try:
            if not options:
                # Nearly all JSON is UTF-8 without white space around it; then this is faster than json.loads.
                text = self.content.decode()
                value, end = _scan(text, 0)
                if end == len(text):
                    return value
        except (StopIteration, ValueError):
            pass
        try:
            return json.loads(self.content, **options)
        except ValueError as error:
            kind = HttpError if self.ok else StatusError
            message = f"{self.url} answered {self.status_code} with {self._describe_body(error)}"
            raise kind(message, url=self.url, response=self) from None

    def _describe_body(self, error: ValueError) -> str:
        """What the body is instead of JSON: most often an error page of a proxy, or a sign-in page."""
        start = " ".join(self.text[:SHOWN].split())
        if not start:
            return "an empty body, not JSON"
        media = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media and not media.endswith(("/json", "+json")):
            return f"{media[:80]}, not JSON: {start}"
        return f"a body that is not valid JSON ({error}): {start}"

    def raise_for_status(self) -> Response:
        """Raises `StatusError` for a status of 400 or above, else returns the response itself."""
        if self.status_code >= 400:
            start = self.text[:SHOWN].strip()
            raise StatusError(
                f"{self.url} answered {self.status_code}" + (f": {start}" if start else ""),
                url=self.url,
                response=self,
            )
        return self

    @property
    def links(self) -> dict[str, dict[str, str]]:
        """The Link header by relation: ``response.links["next"]["url"]``. Addresses are absolute."""
        links: dict[str, dict[str, str]] = {}
        for match in _LINK.finditer(self.headers.get("link", "")):
            link = {"url": urljoin(self.url, match.group(1).strip())}
            for name, quoted, plain in _LINK_PARAM.findall(match.group(2)):
                link.setdefault(name.lower(), quoted or plain)
            for relation in link.get("rel", link["url"]).split():
                links.setdefault(relation, link)
        return links

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return f"<Response {self.status_code}>"
