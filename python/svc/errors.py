"""What can go wrong outside the author's own code. All are re-exported by `svc.http` or `svc.source.models`."""

from __future__ import annotations

from typing import Any


class ConfigError(Exception):
    """The settings or credentials given to a source do not fit what it declares."""


class MissingSetting(ConfigError, AttributeError):
    """A declared setting that was not given is read."""


class HttpError(Exception):
    """A request got no usable answer. `kind` says why in one word."""

    kind = "http"

    def __init__(self, message: str, *, url: str | None = None, response: object = None) -> None:
        super().__init__(message)
        self.url = url
        self.response = response


class ConnectionFailed(HttpError, ConnectionError):
    """No connection, or it broke before the answer was complete."""

    kind = "connection"


class UnknownHost(ConnectionFailed):
    """The name of the host does not exist, so trying again does not help."""

    kind = "unknown_host"


class Timeout(HttpError, TimeoutError):
    """The answer was not complete in time."""

    kind = "timeout"


class Refused(HttpError, PermissionError):
    """The platform does not send this request: a private address, a forbidden header, a scheme other than http(s)."""

    kind = "refused"


class LimitExceeded(HttpError):
    """A limit of the call is used up: requests, bytes or time."""

    kind = "limit"


class AuthenticationFailed(HttpError):
    """The platform could not obtain a token for the source's authentication."""

    kind = "auth"


class StatusError(HttpError):
    """The server answered with a 4xx or 5xx status; `response` holds the answer."""

    kind = "status"


BY_KIND = {
    error.kind: error
    for error in (ConnectionFailed, UnknownHost, Timeout, Refused, LimitExceeded, AuthenticationFailed, HttpError)
}


def from_answer(error: dict[str, Any], url: str) -> HttpError:
    """The exception for an answer `{"kind", "message"}` of a transport."""
    kind = str(error.get("kind", "http"))
    message = str(error.get("message") or kind)
    return BY_KIND.get(kind, HttpError)(message, url=url)


# Tracebacks name a class by its module, and authors import it from where they saw it.
for _error in (*BY_KIND.values(), StatusError):
    _error.__module__ = "svc.http"
for _setting in (ConfigError, MissingSetting):
    _setting.__module__ = "svc.source.models"
