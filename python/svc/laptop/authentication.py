"""The authentication types of the platform, applied to requests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any, Callable

from svc.errors import ConfigError
from svc.signing import basic_credentials
from svc.urls import quote, urlencode

# A token is renewed this long before it expires, so that it does not expire on the way.
EARLY_SECONDS = 30
NEEDED = {
    "none": (),
    "api_key": ("token",),
    "bearer": ("token",),
    "basic": ("username", "password"),
    "oauth2_client_credentials": ("token_url", "client_id", "client_secret"),
    "oauth2_refresh_token": ("token_url", "client_id", "refresh_token"),
}
# With these a server has recognised the client, so another way to name it would change nothing.
CLIENT_IS_KNOWN = ("invalid_grant", "invalid_scope", "unauthorized_client", "unsupported_grant_type")


class Authenticator:
    def __init__(
        self,
        authentication: Mapping[str, Any],
        send: Callable[..., dict[str, Any]],
        keep_refresh_token: Callable[[str], None] = lambda token: None,
    ) -> None:
        """`keep_refresh_token` is called with a refresh token that replaces the one given, before it is used."""
        self.type = authentication.get("type") or "none"
        self.params = dict(authentication.get("params") or {})
        self._send = send
        self._keep_refresh_token = keep_refresh_token
        self._token = ""
        self._ends_at = 0.0
        # Requests of one batch are sent by several threads; one of them fetches the token.
        self._lock = threading.Lock()
        missing = [name for name in NEEDED.get(self.type, ()) if name not in self.params]
        if missing:
            raise ConfigError(f"authentication {self.type} needs {', '.join(missing)}")

    def headers(self) -> dict[str, str]:
        """The headers for each request. A custom type adds none: the author's code reads the params."""
        params = self.params
        if self.type == "api_key":
            return {params.get("header") or "X-API-Key": params["token"]}
        if self.type == "bearer":
            return {"Authorization": f"Bearer {params['token']}"}
        if self.type == "basic":
            return {"Authorization": basic_credentials(params["username"], params["password"])}
        if self.type in ("oauth2_client_credentials", "oauth2_refresh_token"):
            with self._lock:
                if not self._token or time.monotonic() >= self._ends_at:
                    self._fetch_token()
                return {"Authorization": f"Bearer {self._token}"}
        return {}

    def renew(self) -> bool:
        """Drops a token that a server did not accept; returns whether a retry with a new one makes sense."""
        held, self._token = self._token, ""
        return bool(held)

    def _fetch_token(self) -> None:
        url, client = self.params["token_url"], self.params["client_id"]
        secret = self.params.get("client_secret")
        in_form = {"client_id": client, "client_secret": secret}
        if secret is None:
            status, body = self._ask(url, {}, {"client_id": client})
        else:
            # The standard's own way first; servers that only read the form refuse it with 400 or 401.
            header = {"Authorization": basic_credentials(quote(client, safe=""), quote(secret, safe=""))}
            status, body = self._ask(url, header, {})
            if status in (400, 401) and body.get("error") not in CLIENT_IS_KNOWN:
                status, body = self._ask(url, {}, in_form)
        token = body.get("access_token")
        if not token or not isinstance(token, str):
            if self.type == "oauth2_refresh_token" and body.get("error") == "invalid_grant":
                raise ConfigError(f"{url} does not accept the refresh token any more; authorize the connection again")
            raise ConfigError(f"{url} answered {status} without an access_token")
        replacement = body.get("refresh_token")
        if self.type == "oauth2_refresh_token" and replacement and replacement != self.params["refresh_token"]:
            self._keep_refresh_token(replacement)
            self.params["refresh_token"] = replacement
        self._token = token
        self._ends_at = time.monotonic() + max(_seconds(body.get("expires_in")) - EARLY_SECONDS, 1)

    def _ask(self, url: str, headers: dict[str, str], fields: dict[str, str]) -> tuple[int, dict[str, Any]]:
        grant = {"grant_type": "client_credentials"}
        if self.type == "oauth2_refresh_token":
            grant = {"grant_type": "refresh_token", "refresh_token": self.params["refresh_token"]}
        form = {**grant, "scope": self.params.get("scope"), **fields}
        headers = {**headers, "Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        answer = self._send("POST", url, headers, urlencode(form).encode(), 30.0)
        try:
            body = json.loads(answer["body"])
        except ValueError:
            body = {}
        return answer["status"], body if isinstance(body, dict) else {}


def _seconds(value: Any) -> float:
    try:
        return float(value or 3600)
    except (TypeError, ValueError):
        return 3600.0
