"""What a sealed child does: one job, then it exits.

The job is the first thing read after sealing. An author's code can change anything in this process, so the host relies
on nothing here. What is here serves honest authors: tracebacks with their own lines, print as a log, errors that say
what to do.
"""

import copy
import json
import sys
from collections.abc import Sequence

from cell import protocol
from cell.host import MAX_LOG_BYTES, DelayedAuthentication, LogStream, Transport
from cell.modules import ALLOWED_MODULES
from cell.operations import OPERATIONS
from cell.protocol import Channel
from cell.report import SOURCE_FILE, describe
from cell.validator import validate
from svc.http import HttpClient
from svc.log import Log, route_logging
from svc.source.base import build_source
from svc.source.loader import load_source
from svc.source.records import RecordEncoder

CHANNEL_FD = 3
EXIT_OUT_OF_MEMORY = 77
# The interpreter specializes code for the types it sees, once it has seen them a few times.
PREWARM_ROUNDS = 10
LEVELS = {"debug": 0, "info": 1, "warning": 2, "warn": 2, "error": 3}


class Cell:
    # What the operator allows beyond the standard modules; set once, before any cell is forked.
    packages: Sequence[str] = ()

    def __init__(self, channel):
        self.channel = channel
        self.http = HttpClient(Transport(channel))
        self.stdout = LogStream(self.log, "info")
        self.stderr = LogStream(self.log, "warning")

    def log(self, level, text):
        data = text.encode("utf-8", "replace")
        level = bytes((LEVELS.get(level, 1),))
        for start in range(0, len(data) or 1, MAX_LOG_BYTES):
            part = data[start : start + MAX_LOG_BYTES]
            if len(data) > MAX_LOG_BYTES:
                # The cut may be inside a character.
                part = part.decode("utf-8", "replace").encode("utf-8")
            self.channel.send(protocol.LOG, level, part)

    def build(self, job, cls=None, strict=True):
        """The author's source, loaded and ready, and its log."""
        cls = cls or load_source(job["code"], SOURCE_FILE)
        given = job.get("authentication") or {}
        log = Log(self.log)
        route_logging(log)
        authentication = DelayedAuthentication(self, cls, given.get("type") or "none")
        source = build_source(
            cls,
            config=job.get("config"),
            authentication=authentication,
            http=self.http,
            # A copy, because what the author changes is compared with what was given.
            state=copy.deepcopy(job.get("state")),
            log=log,
            strict=strict,
        )
        return source, log

    def request_secrets(self):
        self.channel.send(protocol.SECRETS)
        return json.loads(self.channel.receive()[1])

    def run(self, job):
        return OPERATIONS[job["op"]](self, job)


WARM_UP = """
from svc.source.base import AbstractSource
from svc.source.models import SourceRecord
class WarmUp(AbstractSource):
    def get_streams(self) -> list:
        return [name for name in ("a", "b")]
    def check_connection(self) -> bool:
        return True
    def get_records(self, stream: str):
        yield SourceRecord(id="1", data={"a": [1, 2.5, None, True], "b": {"c": "d"}})
"""


def warm_up(cell):
    """Uses what a job will use, before there is one.

    A forked process shares memory with its parent until it writes to it (copy-on-write), and Python writes reference
    counts wherever it reads, so the first use of everything is slow. A cell that was forked ahead does that while idle.
    """
    validate(WARM_UP, ALLOWED_MODULES, None)
    source, log = cell.build({"code": WARM_UP, "config": {"a": 1}})
    encoder = RecordEncoder(log)
    for item in source.get_records("a"):
        encoder.preview_line(item)
    for _ in encoder.encode_pages(source.get_records("a")):
        pass


def prewarm():
    """Run in the zygote, so that what Python sets up on first use is set up once, for all cells."""
    for _ in range(PREWARM_ROUNDS):
        warm_up(Cell(None))


def report_unsealed(descriptor, error):
    report = {"kind": "seal", "type": type(error).__name__, "text": str(error), "traceback": "", "transient": False}
    try:
        Channel(descriptor).send_json(protocol.ERROR, report)
    except OSError:
        pass


def main():
    """Serves the one job of this process and returns its exit code."""
    channel = Channel(CHANNEL_FD)
    cell = Cell(channel)
    sys.stdout, sys.stderr = cell.stdout, cell.stderr
    if not channel.has_input():
        warm_up(cell)
    spare = bytearray(1 << 20)
    _, payload = channel.receive()
    job = json.loads(payload)
    del payload
    try:
        try:
            result = cell.run(job)
        except MemoryError:
            raise
        except BaseException as error:
            cell.stdout.finish()
            cell.stderr.finish()
            channel.send_json(protocol.ERROR, describe(error))
        else:
            cell.stdout.finish()
            cell.stderr.finish()
            channel.send_json(protocol.DONE, result)
            # The host waits for the channel to close, and at exit the kernel frees memory before it closes files.
            channel.close()
    except MemoryError:
        # Reporting needs memory too, so the reserve is freed first.
        spare.clear()
        return EXIT_OUT_OF_MEMORY
    except protocol.ChannelClosed:
        return 1
    return 0
