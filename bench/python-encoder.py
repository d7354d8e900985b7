"""A million 220-byte records to a file: a bare json.dumps loop, and the encoder of the cell, in the same process.

    python3 bench/python-encoder.py [records]

Both run in turns, a tenth of the records at a time, and the median of the ten ratios counts: other work on the machine
hits neighbours alike. Times are CPU times of this process.
"""

import json
import os
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from svc.source.models import SourceRecord  # noqa: E402
from svc.source.records import RecordEncoder  # noqa: E402


ROUNDS = 10


def make_row(number):
    return {
        "number": number,
        "email": f"person{number}@example.com",
        "name": "Person of the Year",
        "active": True,
        "balance": 1234.5678,
        "country": "PT",
        "tags": ["a", "b"],
        "created_at": "2024-05-01T12:34:56Z",
        "note": "a line of text",
    }


def run_bare(count, out):
    for number in range(count):
        out.write(json.dumps(make_row(number)) + "\n")


def get_records(count):
    for number in range(count):
        yield SourceRecord(str(number), make_row(number))


def run_cell(count, out):
    for page, _ in RecordEncoder().encode_pages(get_records(count)):
        out.write(page)


def measure(function, mode, count, path):
    with open(path, mode) as out:
        started = time.process_time()
        function(count, out)
        out.flush()
        return time.process_time() - started, os.path.getsize(path) / count


def main():
    count = (int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000) // ROUNDS
    bare, cell = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            bare.append(measure(run_bare, "w", count, os.path.join(folder, "bare")))
            cell.append(measure(run_cell, "wb", count, os.path.join(folder, "cell")))
    ratio = statistics.median(mine[0] / theirs[0] for mine, theirs in zip(bare, cell))
    for name, runs in (("bare json.dumps loop", bare), ("cell encoder", cell)):
        seconds = statistics.median(run[0] for run in runs)
        print(f"{name:<22}{count / seconds:>10,.0f} records/s  {runs[0][1]:.0f} bytes each")
    print(f"{'ratio':<22}{ratio:>10.2f}")


if __name__ == "__main__":
    main()
