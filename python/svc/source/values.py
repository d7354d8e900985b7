"""How values that JSON does not have are converted. docs/custom-sources.md has the table."""

from __future__ import annotations

import base64
import collections
import datetime
import decimal
import enum
import fractions
import ipaddress
import uuid
from collections.abc import Mapping
from typing import Any, Callable

from svc.source.models import SourceRecord


def as_dict(data: Any) -> dict[Any, Any]:
    if isinstance(data, dict):
        return data
    if isinstance(data, Mapping):
        return dict(data)
    if hasattr(type(data), "__dataclass_fields__") and not isinstance(data, type):
        return _from_dataclass(data)
    raise TypeError(f"the data of a record must be an object (a dict), not {describe(data)}")


def id_text(record_id: Any) -> str:
    if isinstance(record_id, enum.Enum):
        record_id = record_id.value
    if record_id is None:
        return ""
    if isinstance(record_id, str):
        return str.__str__(record_id)
    if isinstance(record_id, (datetime.date, datetime.datetime)):
        return record_id.isoformat()
    if isinstance(record_id, (int, float, decimal.Decimal, uuid.UUID)) and not isinstance(record_id, bool):
        return str(record_id)
    raise TypeError(f"the id of a record must be a string or a number, not {describe(record_id)}")


def key_text(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, bytes):
        return base64.b64encode(key).decode("ascii")
    if isinstance(key, (datetime.date, datetime.time)):
        return key.isoformat()
    return str(key)


def describe(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"an object of type {type(value).__name__}"


def from_decimal(value: decimal.Decimal) -> Any:
    raise NotImplementedError("RecordEncoder writes Decimals itself, with its marker")


def _from_set(value: Any) -> list[Any]:
    # The order of a set differs between processes; sorted, equal data gives an equal line and hash.
    try:
        return sorted(value)
    except TypeError:
        return sorted(value, key=repr)


def _from_dataclass(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}


def _from_bytes(value: Any) -> str:
    return base64.b64encode(value).decode("ascii")


def _isoformat(value: Any) -> str:
    return str(value.isoformat())


CONVERSIONS: dict[type, Callable[[Any], Any]] = {
    datetime.datetime: _isoformat,
    datetime.date: _isoformat,
    datetime.time: _isoformat,
    datetime.timedelta: datetime.timedelta.total_seconds,
    decimal.Decimal: from_decimal,
    fractions.Fraction: str,
    uuid.UUID: str,
    bytes: _from_bytes,
    bytearray: _from_bytes,
    memoryview: _from_bytes,
    set: _from_set,
    frozenset: _from_set,
    collections.deque: list,
    range: list,
    type({}.keys()): list,
    type({}.values()): list,
    ipaddress.IPv4Address: str,
    ipaddress.IPv6Address: str,
}


def find_conversion(value: Any) -> Callable[[Any], Any]:
    if isinstance(value, enum.Enum):
        return lambda each: each.value
    for base in type(value).__mro__:
        if base in CONVERSIONS:
            return CONVERSIONS[base]
    if hasattr(type(value), "__dataclass_fields__") and not isinstance(value, type):
        return _from_dataclass
    if isinstance(value, Mapping):
        return dict
    if isinstance(value, SourceRecord):
        return lambda each: each.data
    raise TypeError(f"{describe(value)} cannot be written as JSON; convert it to a string, a number, a list or a dict")
