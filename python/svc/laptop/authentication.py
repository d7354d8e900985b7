"""The authentication types of the platform, applied to requests."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Callable, Mapping

from svc.errors import ConfigError
from svc.signing import basic_credentials
from svc.urls import quote, urlencode

# A token is renewed so long before it ends, so that it does not end on the way.
EARLY_SECONDS = 30
NEEDED = {
    "none": (),
    "api_key": ("token",),
    "bearer": ("token",),
    "basic": ("username", "password"),
    "oauth2_client_credentials": ("token_url", "client_id", "client_secret"),
}


class Authenticator:
    def __init__(self, authentication: Mapping[str, Any], send: Callable[..., dict]) -> None:
        self.type = authentication.get("type") or "none"
        self.params = dict(authentication.get("params") or {})
        self._send = send
        self._token = ""
        self._ends_at = 0.0
        # Requests of one batch are sent by several threads; one of them fetches the token.
        self._lock = threading.Lock()
        missing = [name for name in NEEDED.get(self.type, ()) if name not in self.params]
        if missing:
            raise ConfigError(f"authentication {self.type} needs {', '.join(missing)}")

    def headers(self) -> dict[str, str]:
        """What goes with each request. A type of the author's own adds nothing: their code reads the params."""
        params = self.params
        if self.type == "api_key":
            return {params.get("header") or "X-API-Key": params["token"]}
        if self.type == "bearer":
            return {"Authorization": f"Bearer {params['token']}"}
        if self.type == "basic":
            return {"Authorization": basic_credentials(params["username"], params["password"])}
        if self.type == "oauth2_client_credentials":
            with self._lock:
                if not self._token or time.monotonic() >= self._ends_at:
                    self._fetch_token()
                return {"Authorization": f"Bearer {self._token}"}
        return {}

    def renew(self) -> bool:
        """Forgets a token that a server did not accept; whether trying again with another makes sense."""
        held, self._token = self._token, ""
        return bool(held)

    def _fetch_token(self) -> None:
        url, client, secret = (self.params[name] for name in NEEDED["oauth2_client_credentials"])
        # The standard's own way first; servers that only read the form refuse it with 400 or 401.
        header = {"Authorization": basic_credentials(quote(client, safe=""), quote(secret, safe=""))}
        answer = self._ask(url, header, {})
        if answer["status"] in (400, 401):
            answer = self._ask(url, {}, {"client_id": client, "client_secret": secret})
        try:
            body = json.loads(answer["body"])
            self._token = body["access_token"]
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"{url} answered {answer['status']} without an access_token") from None
        self._ends_at = time.monotonic() + max(float(body.get("expires_in") or 3600) - EARLY_SECONDS, 1)

    def _ask(self, url: str, headers: dict[str, str], fields: dict[str, str]) -> dict:
        form = {"grant_type": "client_credentials", "scope": self.params.get("scope"), **fields}
        headers = {**headers, "Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        return self._send("POST", url, headers, urlencode(form).encode(), 30.0)
