"""Declared fields of settings classes: found from annotations, filled from what the platform was given.

Works for subclasses of SourceConfig, for dataclasses and for plain annotated classes alike, because authors write all
three.
"""

from __future__ import annotations

import copy
import sys
import typing
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from svc.errors import ConfigError

if sys.version_info >= (3, 14):
    import annotationlib

MISSING = object()
# Attributes of an authentication class that are not parameters of it.
_OF_AUTHENTICATION = ("type", "auth_type", "params")


def declared_fields(cls: type) -> dict[str, tuple[Any, Any]]:
    """Name → (type hint, default or MISSING) of a class and its bases, in the order they are written."""
    cached: dict[str, tuple[Any, Any]] | None = cls.__dict__.get("__svc_fields__")
    if cached is not None:
        return cached
    fields: dict[str, tuple[Any, Any]] = {}
    skipped = _OF_AUTHENTICATION if getattr(cls, "_kind", "config") == "authentication" else ()
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("svc.") or base.__module__ in ("builtins", "typing", "collections.abc"):
            continue
        for name, hint in _resolved_annotations(base).items():
            if name.startswith("_") or name in skipped or "ClassVar" in str(hint):
                continue
            fields[name] = (hint, _default(cls, base, name))
    try:
        cls.__svc_fields__ = fields  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        pass
    return fields


def fill_fields(target: Any, values: Mapping[str, Any], kind: str, strict: bool = True) -> None:
    """Sets the given values, then the defaults of declared fields. All missing or wrong ones are named in one error.

    A class that was taken for the settings by its name alone may serve another purpose: where no settings are given,
    its required fields stay unset.
    """
    problems = []
    later = strict and kind == "config" and not values and getattr(type(target), "_found_by_name", False)
    fields = declared_fields(type(target))
    for name, value in values.items():
        hint = fields[name][0] if name in fields else None
        try:
            value = _fit(value, hint)
        except ConfigError as error:
            problems.append(f"'{name}' must be {error}, not {type(value).__name__}")
        _set(target, str(name), value)
    for name, (_, default) in fields.items():
        if name in values:
            continue
        if default is MISSING and later:
            continue
        if default is MISSING:
            problems.append(f"'{name}' is missing")
            _set(target, name, None)
        else:
            _set(target, name, default() if isinstance(default, _Factory) else copy.deepcopy(default))
    if problems and strict:
        what = "config" if kind == "config" else "authentication.params"
        raise ConfigError(f"{what} does not fit {type(target).__name__}: {'; '.join(problems)}")


class _Factory:
    def __init__(self, make: Any) -> None:
        self.make = make

    def __call__(self) -> Any:
        return self.make()


def own_annotations(cls: type) -> dict[str, Any]:
    """The annotations of the class itself, as written: types, or strings where evaluation is postponed."""
    if sys.version_info >= (3, 14):
        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    own: dict[str, Any] = cls.__dict__.get("__annotations__", {})
    return own


def _resolved_annotations(cls: type) -> dict[str, Any]:
    own = own_annotations(cls)
    try:
        resolved = typing.get_type_hints(cls)
    except Exception:
        # A name that only a type checker can resolve must not fail the source: such a field takes any value.
        return dict(own)
    return {name: resolved.get(name, hint) for name, hint in own.items()}


def _default(cls: type, base: type, name: str) -> Any:
    field = getattr(cls, "__dataclass_fields__", {}).get(name)
    if field is not None:
        if type(field.default_factory).__name__ != "_MISSING_TYPE":
            return _Factory(field.default_factory)
        return MISSING if type(field.default).__name__ == "_MISSING_TYPE" else field.default
    for each in cls.__mro__:
        if name in each.__dict__:
            value = each.__dict__[name]
            # A slot is a descriptor, not a default.
            return MISSING if type(value).__name__ == "member_descriptor" else value
        if each is base:
            break
    return MISSING


def _set(target: Any, name: str, value: Any) -> None:
    # Bypasses __setattr__, so that a frozen dataclass can be filled too.
    object.__setattr__(target, name, value)


def _fit(value: Any, hint: Any) -> Any:
    """The value converted to its type hint where nothing is lost; otherwise raises ConfigError with the type's name."""
    if hint is None or hint is Any or isinstance(hint, (str, typing.TypeVar)):
        return value
    origin = typing.get_origin(hint)
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        return _fit_union(value, hint)
    if type(hint).__name__ == "_LiteralGenericAlias":
        if value in typing.get_args(hint):
            return value
        raise ConfigError("one of " + ", ".join(map(repr, typing.get_args(hint))))
    wanted = origin or hint
    if wanted is bool:
        return _expect(value, (bool,), "true or false")
    if wanted is int:
        return _expect(value, (int,), "an integer", but=bool)
    if wanted is float:
        return float(_expect(value, (int, float), "a number", but=bool))
    if wanted is str:
        return _expect(value, (str,), "a string")
    if wanted in (list, tuple, set, frozenset):
        return wanted(_expect(value, (list, tuple, set, frozenset), "a list"))
    if wanted is dict:
        return _expect(value, (Mapping,), "an object")
    if wanted in (datetime, date, Decimal) and not isinstance(value, wanted):
        return _parse(value, wanted)
    return value


def _fit_union(value: Any, hint: Any) -> Any:
    choices = typing.get_args(hint)
    if value is None and type(None) in choices:
        return None
    wanted = []
    for choice in choices:
        if choice is type(None):
            continue
        try:
            return _fit(value, choice)
        except ConfigError as error:
            wanted.append(str(error))
    raise ConfigError(" or ".join(wanted))


def _expect(value: Any, types: tuple[type, ...], name: str, but: Any = ()) -> Any:
    if not isinstance(value, types) or (but and isinstance(value, but)):
        raise ConfigError(name)
    return value


def _parse(value: Any, wanted: type) -> Any:
    try:
        if wanted is Decimal:
            return Decimal(str(value))
        text = value.replace("Z", "+00:00") if value.endswith("Z") else value
        return wanted.fromisoformat(text)  # type: ignore[attr-defined]
    except (ValueError, AttributeError, InvalidOperation):
        name = {"date": "a date such as '2024-01-31'", "datetime": "a time such as '2024-01-31T12:00:00Z'"}
        raise ConfigError(name.get(wanted.__name__, "a number")) from None
