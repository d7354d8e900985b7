"""The four common kinds of pagination, as methods of `svc.http.HttpClient`.

All of them yield the items of one page after another, fetch a page only when its items are wanted, raise for a
4xx or 5xx status, and stop with an error where a server sends them in a circle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable, Union

from svc.errors import HttpError
from svc.responses import Response
from svc.urls import has_scheme, urljoin

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from svc.options import BodyOptions

Path = Union[str, Callable[[Any], Any], None]

# Where the list usually is when the author does not say.
_USUAL_LISTS = ("data", "items", "results", "records", "value", "entries", "rows")


def at_path(body: Any, path: Path) -> Any:
    """The value at a dotted path (``"meta.next"``, ``"pages.0"``), or what a function returns; None if missing."""
    if callable(path):
        return path(body)
    for part in (path or "").split("."):
        if isinstance(body, Mapping):
            body = body.get(part)
        elif isinstance(body, list) and part.lstrip("-").isdigit():
            index = int(part)
            body = body[index] if -len(body) <= index < len(body) else None
        elif part:
            return None
    return body


def find_items(body: Any, items: Path, url: str) -> list[Any]:
    """The list of a page: at the path given, else the body itself or the list under a usual name."""
    if items is not None:
        found = at_path(body, items)
        if found is None:
            return []
    elif isinstance(body, list):
        found = body
    else:
        names = [name for name in _USUAL_LISTS if isinstance(body, Mapping) and isinstance(body.get(name), list)]
        found = body[names[0]] if names else None
    if isinstance(found, (list, tuple)):
        return list(found)
    raise HttpError(
        f"the answer of {url} has no list of items; say where it is with items='path.to.list'"
        + (f" (keys: {', '.join(map(str, list(body)[:10]))})" if isinstance(body, Mapping) else ""),
        url=url,
    )


class Pagination:
    """Mixed into the client; `request` is the client's own."""

    request: Callable[..., Response]

    def paginate_pages(
        self,
        url: str,
        *,
        page_param: str = "page",
        size_param: str | None = None,
        size: int | None = None,
        start: int = 1,
        items: Path = None,
        max_pages: int | None = None,
        method: str = "GET",
        params: Mapping[str, Any] | None = None,
        **request: Unpack[BodyOptions],
    ) -> Iterator[Any]:
        """Items of ``?page=1``, ``?page=2`` … up to an empty page, or one shorter than ``size``."""
        page = start
        while max_pages is None or page - start < max_pages:
            query = {**(params or {}), page_param: page}
            if size_param is not None:
                query[size_param] = size
            found = self._items(self.request(method, url, params=query, **request), items)
            yield from found
            if not found or (size is not None and len(found) < size):
                return
            page += 1

    def paginate_offset(
        self,
        url: str,
        *,
        offset_param: str = "offset",
        limit_param: str = "limit",
        limit: int = 100,
        start: int = 0,
        items: Path = None,
        total: Path = None,
        method: str = "GET",
        params: Mapping[str, Any] | None = None,
        **request: Unpack[BodyOptions],
    ) -> Iterator[Any]:
        """Items of ``?offset=0&limit=100``, ``?offset=100&limit=100`` … up to ``total``, or a page below ``limit``."""
        offset = start
        while True:
            query = {**(params or {}), offset_param: offset, limit_param: limit}
            response = self.request(method, url, params=query, **request)
            found = self._items(response, items)
            yield from found
            offset += len(found)
            expected = at_path(response.json(), total) if total is not None else None
            # A server may cap the limit: where it says how many there are, a short page is not the end.
            if not found or (offset >= int(expected) if expected is not None else len(found) < limit):
                return

    def paginate_cursor(
        self,
        url: str,
        *,
        cursor: Path = "next_cursor",
        cursor_param: str = "cursor",
        start: Any = None,
        items: Path = None,
        method: str = "GET",
        params: Mapping[str, Any] | None = None,
        **request: Unpack[BodyOptions],
    ) -> Iterator[Any]:
        """Items of pages that each name the next one: ``cursor`` is where in the body. A URL there is followed."""
        seen: set[Any] = set()
        query: Mapping[str, Any] | None = params if start is None else {**(params or {}), cursor_param: start}
        while True:
            response = self.request(method, url, params=query, **request)
            yield from self._items(response, items)
            position = at_path(response.json(), cursor)
            if position is None or position == "" or position is False:
                return
            if position in seen:
                raise HttpError(f"{response.url} returned the cursor {position!r} twice", url=response.url)
            seen.add(position)
            if isinstance(position, str) and (has_scheme(position) or position.startswith("/")):
                url, query = urljoin(response.url, position), None
            else:
                query = {**(params or {}), cursor_param: position}

    def paginate_links(
        self,
        url: str,
        *,
        items: Path = None,
        method: str = "GET",
        params: Mapping[str, Any] | None = None,
        **request: Unpack[BodyOptions],
    ) -> Iterator[Any]:
        """Items of pages linked by a header ``Link: <…>; rel="next"``."""
        seen = {url}
        query = params
        while True:
            response = self.request(method, url, params=query, **request)
            yield from self._items(response, items)
            following = response.links.get("next", {}).get("url")
            if not following:
                return
            if following in seen:
                raise HttpError(f"{response.url} links to {following} twice", url=response.url)
            seen.add(following)
            url, query = following, None

    def _items(self, response: Response, items: Path) -> list[Any]:
        return find_items(response.raise_for_status().json(), items, response.url)
