"""The options of a request, for editors and type checkers. `HttpClient.request` explains them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Literal, TypedDict, Union

from svc.urls import Params

# A user name and password, a function that sets headers, or False for a request without the source's authentication.
Auth = Union["tuple[str, str]", Callable[["dict[str, str]"], Any], Literal[False], None]


class Options(TypedDict, total=False):
    headers: Mapping[str, Any] | None
    timeout: float | None
    retries: int | None
    auth: Auth


class QueryOptions(Options, total=False):
    params: Params | None


class BodyOptions(Options, total=False):
    json: Any
    data: Any


class RequestOptions(BodyOptions, total=False):
    params: Params | None
