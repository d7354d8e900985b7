"""Encodes what an author yields as the lines of a page, as fast as Python can.

A line is the JSON of a record's data with `_record_id` as its first field. The C encoder of the standard library is
built once and called directly; it calls `_default` for types it does not know (dates, Decimal, bytes …). A record that
it refuses (NaN, keys that are not strings) goes through `_normalise`, which is slower and accepts more.

A Decimal must be written as a number with all its digits, but the C encoder can only be made to write a string there.
So `_default` writes the digits as a string with a random marker, and the quotes are removed when the page is complete.
Pages without a Decimal pay nothing for this. Lone surrogates are handled in the same way: only a page that fails to
encode as UTF-8 is looked at again.

Everything is imported at the top, because a sealed cell cannot open files.
"""

from __future__ import annotations

import decimal
import hashlib
import itertools
import json
import math
import re
import secrets
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from json import encoder as _json_encoder
from typing import Any, Callable

from svc.source.models import SourceRecord
from svc.source.values import CONVERSIONS, as_dict, describe, find_conversion, from_decimal, id_text, key_text

MAX_RECORD_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64
PAGE_BYTES = 64 * 1024
FLUSH_SECONDS = 1.0
ID_FIELD = "_record_id"

Encode = Callable[[Any, int], Iterable[str]]

# Private-use characters around random text: no data contains it by accident, and JSON escapes do not split it.
_MARK = "\ue000" + secrets.token_hex(8) + "\ue001"
_MARKED = re.compile('"' + _MARK + r'(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"')
# None in a Python that was built without them.
_c_quote: Callable[[str], str] | None = getattr(_json_encoder, "c_encode_basestring", None)
_c_make_encoder: Callable[..., Encode] | None = getattr(_json_encoder, "c_make_encoder", None)
_quote: Callable[[str], str] = _c_quote or _json_encoder.py_encode_basestring


class RecordError(ValueError):
    """A record that cannot be written: too large, too deep, or with a type that JSON does not have."""


def _make_encoder(default: Callable[[Any], Any], sort_keys: bool = False) -> Encode:
    if _c_make_encoder is not None:
        return _c_make_encoder(None, default, _quote, None, ":", ",", sort_keys, False, False)
    slow = json.JSONEncoder(
        ensure_ascii=False,
        check_circular=False,
        allow_nan=False,
        sort_keys=sort_keys,
        separators=(",", ":"),
        default=default,
    )
    return lambda value, _: slow.iterencode(value)


class RecordEncoder:
    """Encodes the records of one call. `log` gets one warning when NaN or Infinity is written as null."""

    def __init__(self, log: Any = None, max_record_bytes: int = MAX_RECORD_BYTES) -> None:
        self.max_record_bytes = max_record_bytes
        self._log = log
        self._warned = False
        self._marked = False
        self._encode = _make_encoder(self._default)
        self._encode_sorted = _make_encoder(self._default, sort_keys=True)

    def encode_pages(
        self, items: Iterable[Any], page_bytes: int = PAGE_BYTES, flush_seconds: float = FLUSH_SECONDS
    ) -> Iterator[tuple[bytes, int]]:
        """Pages of whole lines and how many each holds; one is cut when it is full, or a second after the last."""
        encode, quote, join, clock, id_field = self._encode, _quote, "".join, time.monotonic, ID_FIELD
        # A character takes up to four bytes, so a shorter line cannot exceed the limit.
        suspicious = self.max_record_bytes // 4
        lines: list[str] = []
        append = lines.append
        size = 0
        deadline = clock() + flush_seconds
        rest: Iterator[Any] | None = iter(items)
        while rest is not None:
            for item in rest:
                line = None
                if type(item) is SourceRecord:
                    record_id = item.id
                    data = item.data
                    if type(data) is dict and data and id_field not in data:
                        try:
                            if type(record_id) is str and record_id:
                                line = f'{{"_record_id":{quote(record_id)},{join(encode(data, 0))[1:]}'
                            elif type(record_id) is int:
                                line = f'{{"_record_id":"{record_id}",{join(encode(data, 0))[1:]}'
                        except (TypeError, ValueError, RecursionError):
                            line = None
                elif isinstance(item, (list, tuple)):
                    # Flattening costs time, so it starts with the first list and other sources do not pay for it.
                    rest = each_record(itertools.chain((item,), rest))
                    break
                if line is None:
                    line = self.encode_line(item)
                length = len(line)
                if length > suspicious:
                    self._check_size(line)
                append(line)
                size += length
                if size >= page_bytes or clock() >= deadline:
                    yield self.join_lines(lines), len(lines)
                    lines.clear()
                    size = 0
                    deadline = clock() + flush_seconds
            else:
                rest = None
        if lines:
            yield self.join_lines(lines), len(lines)

    def encode_line(self, item: Any) -> str:
        """One record as a line, without its newline; marks are still in it (see `join_lines`)."""
        record_id, body = self._split(item)
        if body == "{}":
            return f'{{"{ID_FIELD}":{_quote(record_id)}}}'
        return f'{{"{ID_FIELD}":{_quote(record_id)},{body[1:]}'

    def join_lines(self, lines: list[str]) -> bytes:
        """The bytes of a page."""
        # The host checks the depth of every line. Checking here takes a sixth of the encoding time, so it is done only
        # for the first line of a page: records of a stream are alike, and the author gets the better message.
        if lines[0].count("{") + lines[0].count("[") > MAX_DEPTH:
            _check_depth(lines[0])
        return self._to_bytes("\n".join(lines) + "\n")

    def preview_line(self, item: Any) -> bytes:
        """`{"id": …, "data": …}` as JSON text that keeps every digit."""
        record_id, body = self._split(item)
        self._check_size(body)
        _check_depth(body)
        return self._to_bytes(f'{{"id":{_quote(record_id)},"data":{body}}}')

    def preview_record(self, item: Any) -> dict[str, Any]:
        """The same as plain values; a Decimal becomes the nearest float."""
        record: dict[str, Any] = json.loads(self.preview_line(item))
        return record

    def encode_value(self, value: Any) -> bytes:
        """Any value as JSON text, by the rules for records: for state, request bodies and log lines."""
        try:
            text = "".join(self._encode(value, 0))
        except (TypeError, ValueError, RecursionError):
            text = "".join(self._encode(self._normalise(value, "value", 0), 0))
        return self._to_bytes(text)

    def _split(self, item: Any) -> tuple[str, str]:
        """The id of a record as text, and the JSON of its data without a field `_record_id`."""
        if isinstance(item, SourceRecord):
            record_id, data = item.id, item.data
        elif isinstance(item, Mapping):
            record_id, data = item.get(ID_FIELD), item
        else:
            raise TypeError(f"get_records yielded {describe(item)}; {_advice(item)}")
        data = as_dict(data)
        if ID_FIELD in data:
            data = {**data}
            del data[ID_FIELD]
        try:
            body = "".join(self._encode(data, 0))
        except (TypeError, ValueError, RecursionError):
            data = self._normalise(data, "data", 0)
            body = "".join(self._encode(data, 0))
        return id_text(record_id) or self._hash(data), body

    def _hash(self, data: dict[str, Any]) -> str:
        """A hash of the data with sorted keys, so that the order in which a server sends fields does not matter."""
        try:
            text = "".join(self._encode_sorted(data, 0))
        except TypeError:
            # Keys of different types cannot be sorted before they are strings.
            text = "".join(self._encode_sorted(self._normalise(data, "data", 0), 0))
        return hashlib.sha256(self._to_bytes(text)).hexdigest()[:32]

    def _to_bytes(self, text: str) -> bytes:
        if self._marked:
            text = _MARKED.sub(r"\1", text)
        try:
            return text.encode()
        except UnicodeEncodeError:
            # Joins surrogate pairs into the character they stand for; lone ones become U+FFFD.
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()

    def _default(self, value: Any) -> Any:
        """Converts a value that the C encoder does not know to one that it does."""
        convert = CONVERSIONS.get(type(value)) or find_conversion(value)
        if convert is not from_decimal:
            return convert(value)
        if not value.is_finite():
            return self._null(value, "a Decimal")
        self._marked = True
        return _MARK + str(value)

    def _normalise(self, value: Any, where: str, depth: int) -> Any:
        """The value with NaN as None and every key a string. Slow: only for records the C encoder refused."""
        if depth > MAX_DEPTH:
            raise RecordError(f"a record is nested deeper than {MAX_DEPTH} levels, or refers to itself: {where[:60]}…")
        if isinstance(value, float):
            return value if math.isfinite(value) else self._null(value, where)
        if isinstance(value, int) and value.bit_length() > 14_000:
            # Python does not convert integers of more than 4,300 digits to text, but it does for a Decimal.
            return self._default(decimal.Decimal(value))
        if value is None or isinstance(value, (str, int)):
            return value
        if isinstance(value, dict):
            return {
                key_text(key): self._normalise(each, f"{where}.{key}" if depth < 5 else where, depth + 1)
                for key, each in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self._normalise(each, where, depth + 1) for each in value]
        try:
            known = self._default(value)
        except TypeError as error:
            raise RecordError(f"{error} (at {where})") from None
        return self._normalise(known, where, depth + 1)

    def _null(self, value: Any, where: str) -> None:
        if not self._warned and self._log is not None:
            self._warned = True
            self._log.warning(f"{where} is {value}, which JSON cannot represent; it is written as null (logged once)")

    def _check_size(self, line: str) -> None:
        size = len(self._to_bytes(line))
        if size > self.max_record_bytes:
            raise RecordError(
                f"a record of {size} bytes is over the limit of {self.max_record_bytes} bytes per record; "
                "yield smaller records, for instance one per item of a list"
            )


def each_record(items: Iterable[Any]) -> Generator[Any, None, None]:
    """The yielded records one by one; a list or tuple stands for the records in it."""
    for item in items:
        if type(item) is SourceRecord or not isinstance(item, (list, tuple)):
            yield item
            continue
        for each in item:
            if isinstance(each, (list, tuple)):
                raise TypeError(
                    f"get_records yielded a {type(item).__name__} that contains {describe(each)}; "
                    "yield a record, or a list of records"
                )
            yield each


def _check_depth(line: str) -> None:
    depth = 0
    for sign in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', line):
        if sign in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise RecordError(f"a record is nested deeper than {MAX_DEPTH} levels")
        elif sign in "]}":
            depth -= 1


def _advice(item: Any) -> str:
    if isinstance(item, Iterator):
        return "write `yield from` instead of `yield`"
    return "yield SourceRecord(id=…, data={…}), a dict, or a list of these"


def encode_page(records: Iterable[Any], encoder: RecordEncoder | None = None) -> bytes:
    """All records as one page."""
    encoder = encoder or RecordEncoder()
    lines = [encoder.encode_line(record) for record in records]
    return encoder.join_lines(lines) if lines else b""


def preview_record(item: Any, encoder: RecordEncoder | None = None) -> dict[str, Any]:
    """`{"id": str, "data": object}` of what an author yielded."""
    return (encoder or RecordEncoder()).preview_record(item)


def to_json(value: Any) -> bytes:
    """Any value as compact JSON in UTF-8."""
    return RecordEncoder().encode_value(value)
