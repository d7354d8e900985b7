"""Signatures that servers ask for: HMAC digests and JSON Web Tokens. Re-exported by `svc.http`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

JWT_DIGESTS = {"HS256": "sha256", "HS384": "sha384", "HS512": "sha512"}


def hmac_signature(key: str | bytes, message: str | bytes, digest: str = "sha256", encoding: str = "hex") -> str:
    """The HMAC of a message, as ``hex``, ``base64`` or ``base64url`` text."""
    raw = hmac_digest(key, message, digest)
    if encoding == "hex":
        return raw.hex()
    if encoding == "base64":
        return base64.b64encode(raw).decode("ascii")
    if encoding == "base64url":
        return _base64url(raw)
    raise ValueError(f"encoding must be hex, base64 or base64url, not {encoding!r}")


def hmac_digest(key: str | bytes, message: str | bytes, digest: str = "sha256") -> bytes:
    """The raw HMAC of a message, for signatures that chain (AWS, Azure)."""
    return hmac.new(_bytes(key), _bytes(message), getattr(hashlib, digest)).digest()


def jwt_encode(
    claims: Mapping[str, Any],
    key: str | bytes,
    algorithm: str = "HS256",
    headers: Mapping[str, Any] | None = None,
) -> str:
    """A JSON Web Token signed with a shared secret (HS256, HS384 or HS512)."""
    digest = JWT_DIGESTS.get(algorithm)
    if digest is None:
        raise ValueError(f"algorithm must be one of {', '.join(JWT_DIGESTS)}, not {algorithm!r}")
    header = {"alg": algorithm, "typ": "JWT", **(headers or {})}
    signed = ".".join(_base64url(json.dumps(part, separators=(",", ":")).encode()) for part in (header, dict(claims)))
    return f"{signed}.{_base64url(hmac_digest(key, signed, digest))}"


def jwt_decode(token: str, key: str | bytes | None = None) -> dict[str, Any]:
    """The claims of a token. With a key its signature is checked; times are not: compare ``exp`` yourself."""
    try:
        header, claims, signature = token.split(".")
        algorithm = json.loads(_from_base64url(header)).get("alg")
        if key is not None:
            digest = JWT_DIGESTS.get(algorithm)
            if digest is None:
                raise ValueError(f"token is signed with {algorithm!r}, which cannot be checked here")
            expected = hmac_digest(key, f"{header}.{claims}", digest)
            if not hmac.compare_digest(expected, _from_base64url(signature)):
                raise ValueError("signature of the token is wrong")
        decoded: dict[str, Any] = json.loads(_from_base64url(claims))
        return decoded
    except (AttributeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError("not a JSON Web Token") from error


def basic_credentials(username: str, password: str) -> str:
    """The value of an Authorization header for basic authentication."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _from_base64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
