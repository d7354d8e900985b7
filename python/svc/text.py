"""In-memory text for authors: a cell has no files, so the `io` module is not importable there."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import BytesIO, StringIO
from typing import Any

__all__ = ["BytesIO", "StringIO", "csv_rows", "to_csv"]


def csv_rows(text: str, **options: Any) -> Iterator[dict[str, str]]:
    """The rows of a CSV text as dicts keyed by its header line.

    ``options`` go to `csv.DictReader`, e.g. ``delimiter=";"``. A byte order mark is dropped.
    """
    # newline="" leaves line ends inside quoted fields as they are.
    yield from csv.DictReader(StringIO(text.lstrip("\ufeff"), newline=""), **options)


def to_csv(rows: list[dict[str, Any]], **options: Any) -> str:
    """A CSV text of rows that share the keys of the first one, for servers that want one as a request body."""
    out = StringIO(newline="")
    if rows:
        writer = csv.DictWriter(out, fieldnames=list(rows[0]), **options)
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()
