"""The operations of a cell. Each takes the cell and the job, and returns the content of the last frame."""

import copy
import itertools
import os
from typing import Any

from cell import protocol
from cell.modules import ALLOWED_MODULES
from cell.report import SOURCE_FILE, JobError
from cell.validator import validate
from svc.errors import ConfigError
from svc.source.loader import load_source
from svc.source.records import RecordEncoder, each_record

MAX_STATE_BYTES = 1 << 20
PAGE_BYTES = 128 * 1024


def list_streams(source):
    streams = source.get_streams()
    if isinstance(streams, (str, bytes)) or not hasattr(streams, "__iter__"):
        raise JobError(f"get_streams returned {type(streams).__name__}, not a list of names")
    streams = list(streams)
    for name in streams:
        if not isinstance(name, str):
            raise JobError(f"get_streams returned a list that contains {type(name).__name__}; stream names are strings")
    return streams


def open_records(source, stream):
    streams = list_streams(source)
    if stream not in streams:
        raise JobError(f"unknown stream {stream!r}; the source has: {', '.join(streams) or 'none'}", "config")
    records = source.get_records(stream)
    if records is None or not hasattr(records, "__iter__"):
        raise JobError(f"get_records returned {type(records).__name__}; yield records, or return a list of them")
    return records


class StateWatch:
    """Passes records on and notes where the author's state changed.

    A state stands for all records yielded before it was set. When the change shows, the next record has already come,
    so `covered` is the number of records before that one, and a page is cut there. A state set before the first record
    stands for none: it counts only when all of them have come.
    """

    def __init__(self, source, given):
        self._source = source
        self._sent = given
        self._seen = copy.deepcopy(source.state)
        self.changed = False
        self.covered = 0
        self._count = 0

    def watch(self, records):
        source = self._source
        for record in records:
            if source.state != self._seen:
                self._seen = copy.deepcopy(source.state)
                self.changed = self._count > 0
                self.covered = self._count
            if isinstance(record, (list, tuple)):
                for each in each_record((record,)):
                    self._count += 1
                    yield each
                continue
            self._count += 1
            yield record
        # One that was set before the first record has not been sent yet.
        if source.state != self._seen or (self._seen != self._sent and not self.changed):
            self._seen = copy.deepcopy(source.state)
            self.changed = True
            self.covered = self._count

    def take(self, encoder):
        """The state to send, as JSON."""
        self.changed = False
        self._sent = self._seen
        data = encoder.encode_value(self._seen)
        if len(data) > MAX_STATE_BYTES:
            raise JobError(f"self.state is {len(data)} bytes as JSON; at most {MAX_STATE_BYTES} are allowed")
        return data


def read(cell, job):
    source, log = cell.build(job)
    return {"records": send_pages(cell, job, source, log, job["stream"])}


def send_pages(cell, job, source, log, stream):
    """Sends the pages of a stream. Where the state changed within one, it is cut in two at that record."""
    records = open_records(source, stream)
    encoder = RecordEncoder(log)
    state = StateWatch(source, job.get("state") or {})
    # Comparing the state takes time for each record; the host knows whether the code uses it.
    if job.get("track_state", True):
        records = state.watch(records)
    sent = 0
    for page, count in encoder.encode_pages(records, page_bytes=PAGE_BYTES):
        if state.changed:
            lines = state.covered - sent
            cut = end_of_line(page, lines)
            cell.channel.send(protocol.PAGE, *protocol.pack_page(lines, state.take(encoder), page[:cut]))
            page = page[cut:]
            sent += lines
            count -= lines
        if count:
            cell.channel.send(protocol.PAGE, *protocol.pack_page(count, b"", page))
            sent += count
    if state.changed:
        cell.channel.send(protocol.PAGE, *protocol.pack_page(0, state.take(encoder), b""))
    return sent


def end_of_line(page, lines):
    """The offset after the given number of lines."""
    at = 0
    for _ in range(lines):
        at = page.index(b"\n", at) + 1
    return at


def preview(cell, job):
    """Reads until there are enough records, and no further."""
    if job.get("validate"):
        report = validate(job["code"], ALLOWED_MODULES, job.get("source_name"), cell.packages)
        if not report["valid"]:
            return {"validation": report}
    source, log = cell.build(job)
    encoder = RecordEncoder(log)
    records = each_record(open_records(source, job["stream"]))
    for item in itertools.islice(records, job["max_records"]):
        # One frame each: whatever ends the call, the author sees the records that came before it.
        cell.channel.send(protocol.PREVIEW, b"[", encoder.preview_line(item), b"]")
    records.close()
    return {}


def check(cell, job):
    source, _ = cell.build(job)
    answer = source.check_connection()
    if answer is None:
        raise JobError("check_connection returned None; return True or False")
    return {"success": bool(answer)}


def streams(cell, job):
    source, _ = cell.build(job, strict=False)
    return {"streams": list_streams(source)}


def validate_code(cell, job):
    return validate(job["code"], ALLOWED_MODULES, job.get("source_name"), cell.packages)


def run_file(cell, job):
    """`sluice cell run`: any file; where it defines a source, its streams are read as well."""
    try:
        cls = load_source(job["code"], SOURCE_FILE)
    except ConfigError:
        return {"records": None}
    source, log = cell.build(job, cls=cls)
    return {"records": {stream: send_pages(cell, job, source, log, stream) for stream in list_streams(source)}}


def self_test(cell, job):
    """Tries in native code what must be impossible. The last attempt kills this process, and the host sees how."""
    import ctypes

    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    read_write_exec, private_anonymous = 7, 0x22
    results = {
        "socket": libc.socket(2, 1, 0) == -1,
        "open": libc.open(b"/etc/passwd", 0) == -1,
        "executable mapping": libc.mmap(None, 4096, read_write_exec, private_anonymous, -1, 0)
        == ctypes.c_void_p(-1).value,
    }
    cell.channel.send_json(protocol.DONE, {name: "refused" if held else "possible" for name, held in results.items()})
    arguments = (ctypes.c_char_p * 2)(b"/bin/true", None)
    libc.execve(b"/bin/true", arguments, None)
    os._exit(0)


OPERATIONS = {
    "read": read,
    "preview": preview,
    "check": check,
    "streams": streams,
    "validate": validate_code,
    "run_file": run_file,
    "self_test": self_test,
}
