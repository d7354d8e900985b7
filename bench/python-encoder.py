"""A million 220-byte records to a file: a bare json.dumps loop, and the encoder of the cell, in the same process.

    python3 bench/python-encoder.py [records]

Each round runs both, in turns, and the best of three counts: other work on the machine hits both alike.
"""

import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from svc.source.models import SourceRecord  # noqa: E402
from svc.source.records import RecordEncoder  # noqa: E402


def rows(count):
    for number in range(count):
        yield {
            "number": number,
            "email": f"person{number}@example.com",
            "name": "Person of the Year",
            "active": True,
            "balance": 1234.5678,
            "country": "PT",
            "tags": ["a", "b", "c"],
            "created_at": "2024-05-01T12:34:56Z",
            "note": "a line of text that fills the record",
        }


def run_bare(count, out):
    for row in rows(count):
        out.write(json.dumps(row) + "\n")


def records(count):
    for row in rows(count):
        yield SourceRecord(str(row["number"]), row)


def run_cell(count, out):
    for page, _ in RecordEncoder().encode_pages(records(count)):
        out.write(page)


def measure(function, mode, count):
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "out"), mode) as out:
        started = time.perf_counter()
        function(count, out)
        out.flush()
        return time.perf_counter() - started, out.tell() / count


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    bare, cell = [], []
    for _ in range(3):
        bare.append(measure(run_bare, "w", count))
        cell.append(measure(run_cell, "wb", count))
    (bare_s, bare_bytes), (cell_s, cell_bytes) = min(bare), min(cell)
    print(f"bare json.dumps loop  {count / bare_s:>10,.0f} records/s  {bare_bytes:.0f} bytes each")
    print(f"cell encoder          {count / cell_s:>10,.0f} records/s  {cell_bytes:.0f} bytes each")
    print(f"ratio                 {bare_s / cell_s:>10.2f}")


if __name__ == "__main__":
    main()
