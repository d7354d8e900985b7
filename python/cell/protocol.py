"""Frames between a cell and its host: a little-endian length (4 bytes) and kind (1 byte), then that many bytes.

The cell sends PAGE, LOG, HTTP, SECRETS, PREVIEW and, as its last frame, DONE or ERROR. The host sends one JOB, then an
ANSWER to each HTTP or SECRETS frame; the cell has at most one of them open. The host trusts nothing that comes out of
here, and the limits below are the ones it enforces, so an honest cell never meets them.
"""

import json
import os
import struct

# From the cell.
PAGE, LOG, HTTP, SECRETS, PREVIEW, DONE, ERROR = 1, 2, 3, 4, 5, 6, 7
# From the host.
JOB, ANSWER = 1, 2

MAX_FRAME = 24 << 20
HEADER = struct.Struct("<IB")
PAIR = struct.Struct("<II")
LENGTH = struct.Struct("<I")

DEBUG, INFO, WARNING, ERROR_LEVEL = 0, 1, 2, 3


class ChannelClosed(Exception):
    """The host went away: nobody is interested in the rest."""


class Channel:
    """Blocking frames over one descriptor. Writing blocks while the host does not read: that is the back pressure."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._buffer = b""
        # An author may replace os.read; the channel keeps what it was built with.
        self._read = os.read
        self._write = os.write

    def send(self, kind, *parts):
        self._write_all(b"".join((HEADER.pack(sum(map(len, parts)), kind),) + parts))

    def send_json(self, kind, value):
        self.send(kind, json.dumps(value, allow_nan=False).encode("ascii"))

    def receive(self):
        self._fill(HEADER.size)
        length, kind = HEADER.unpack_from(self._buffer)
        self._fill(HEADER.size + length)
        payload = self._buffer[HEADER.size : HEADER.size + length]
        self._buffer = self._buffer[HEADER.size + length :]
        return kind, payload

    def _fill(self, wanted):
        """Reads until so many bytes are there; a small frame comes whole with the first read."""
        if len(self._buffer) >= wanted:
            return
        parts = [self._buffer]
        size = len(self._buffer)
        while size < wanted:
            data = self._read(self._descriptor, min(max(wanted - size, 65536), 1 << 20))
            if not data:
                raise ChannelClosed()
            parts.append(data)
            size += len(data)
        self._buffer = b"".join(parts)

    def _write_all(self, data):
        view = memoryview(data)
        while view:
            view = view[self._write(self._descriptor, view) :]


def pack_page(records, state, data):
    """`state` is its JSON as bytes where the author set one that covers all records up to the end of this page."""
    return PAIR.pack(records, len(state)), state, data


def pack_with_bodies(head, bodies):
    encoded = json.dumps(head).encode("ascii")
    return (LENGTH.pack(len(encoded)), encoded) + tuple(bodies)


def unpack_with_bodies(payload):
    """The head (a list) and the bytes after it, cut by the `size` of each entry of the head."""
    (length,) = LENGTH.unpack_from(payload)
    head = json.loads(payload[4 : 4 + length])
    bodies = []
    offset = 4 + length
    for entry in head:
        size = entry.get("size", 0)
        bodies.append(payload[offset : offset + size])
        offset += size
    return head, bodies
