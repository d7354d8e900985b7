"""What a source is made of: its records, its settings and its credentials.

    class ShopConfig(SourceConfig):
        subdomain: str                  # required
        page_size: int = 100            # optional

    class ShopAuth(SourceAuth):
        type = "bearer"
        token: str

Validation reads these classes from the code: field name, type hint, and whether it is required.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from svc.errors import ConfigError, MissingSetting
from svc.source.fields import declared_fields, fill_fields

__all__ = ["ConfigError", "Record", "SourceAuth", "SourceConfig", "SourceRecord"]


class SourceRecord:
    """One record: an id that stays the same from run to run, and a data object.

    Without an id the record gets a hash of its data, so equal data has an equal id.
    """

    __slots__ = ("id", "data")

    def __init__(self, id: Any = None, data: Mapping[str, Any] | None = None) -> None:
        self.id = id
        self.data = {} if data is None else data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, data={self.data!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SourceRecord):
            return NotImplemented
        return self.id == other.id and self.data == other.data

    __hash__ = None  # type: ignore[assignment]


Record = SourceRecord


class _Settings(Mapping[str, Any]):
    """Values that are read as attributes and as items. Those that no field declares are kept as given."""

    _kind = "config"

    def __init__(self, *args: Any, **values: Any) -> None:
        self._fill({**(dict(*args) if args else {}), **values})

    def _fill(self, values: Mapping[str, Any], strict: bool = True) -> None:
        fill_fields(self, values, self._kind, strict)

    def _names(self) -> list[str]:
        names = dict.fromkeys(name for name in declared_fields(type(self)) if self._is_set(name))
        names.update(dict.fromkeys(name for name in vars(self) if not name.startswith("_")))
        return list(names)

    def _is_set(self, name: str) -> bool:
        return name in vars(self) or hasattr(type(self), name)

    def __getitem__(self, name: str) -> Any:
        if name in self._names():
            return getattr(self, name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in declared_fields(type(self)):
            raise MissingSetting(f"{self._kind}: {name!r} is missing; give it in the source's {self._kind}")
        given = ", ".join(self._names()) or "nothing"
        raise AttributeError(f"{self._kind} has no {name!r} (it has {given}); add it to the source's {self._kind}")

    def __repr__(self) -> str:
        # Values may be secret, and reprs end up in logs.
        return f"<{type(self).__name__}: {', '.join(self._names())}>"


class SourceConfig(_Settings):
    """The settings of a source. Extend it with annotated fields; ``self.config`` is then an instance of your class."""


class Params(_Settings):
    """The parameters of an authentication."""

    _kind = "authentication"


class SourceAuth(_Settings):
    """The credentials of a source: ``type``, ``params``, and each parameter as an attribute.

    Extend it to say what the source needs: ``type`` with a literal value, and a field per parameter.
    """

    _kind = "authentication"
    type: Any = "none"
    params: Any = Params()

    def __init__(self, type: str | None = None, params: Mapping[str, Any] | None = None) -> None:
        self._fill({"type": type, "params": params})

    def _fill(self, values: Mapping[str, Any], strict: bool = True) -> None:
        params = dict(values.get("params") or {})
        if values.get("type") is not None:
            object.__setattr__(self, "type", values["type"])
        object.__setattr__(self, "params", Params(params))
        # `type` and `params` are attributes of this object; a parameter of such a name is in `params` only.
        own = {name: value for name, value in params.items() if name not in ("type", "params")}
        fill_fields(self, own, self._kind, strict)

    def _names(self) -> list[str]:
        return list(dict.fromkeys([*declared_fields(type(self)), *self.params]))
