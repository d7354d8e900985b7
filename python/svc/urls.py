"""Addresses and their parameters. Re-exported by `svc.http`, because `urllib` is not importable in a cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any, Union
from urllib.parse import parse_qs, quote, unquote, urldefrag, urljoin, urlsplit
from urllib.parse import urlencode as _urlencode

Params = Union[Mapping[str, Any], Iterable[Any], str]


def urlencode(params: Params) -> str:
    """A query string. A list repeats its name, None drops it, booleans are ``true`` and ``false``, dates ISO 8601."""
    pairs: Iterable[Any] = params.items() if isinstance(params, Mapping) else params
    flat: list[tuple[str, str]] = []
    for name, value in pairs:
        values = value if isinstance(value, (list, tuple, set, frozenset)) else (value,)
        flat.extend((str(name), _text(each)) for each in values if each is not None)
    return _urlencode(flat)


def add_params(url: str, params: Params) -> str:
    """The URL with parameters added after those it already has."""
    if not params:
        return url
    query = params.lstrip("?&") if isinstance(params, str) else urlencode(params)
    if not query:
        return url
    address, fragment = urldefrag(url)
    separator = "?" if "?" not in address else ("" if address[-1] in "?&" else "&")
    return f"{address}{separator}{query}" + (f"#{fragment}" if fragment else "")


def has_scheme(url: str) -> bool:
    head = url.split("/", 1)[0]
    return ":" in head and "://" in url


def _text(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value)


__all__ = ["add_params", "has_scheme", "parse_qs", "quote", "unquote", "urlencode", "urljoin", "urlsplit"]
