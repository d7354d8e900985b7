"""Frames between a cell and its host: a little-endian length (4 bytes) and kind (1 byte), then that many bytes.

The cell sends PAGE, LOG, HTTP, SECRETS, PREVIEW and, as its last frame, DONE or ERROR. The host sends one JOB, then an
ANSWER to each HTTP or SECRETS frame; the cell has at most one of them pending. The host trusts nothing that the cell
sends. The limits below are those it enforces, so that an honest cell never exceeds them.
"""

import json
import os
import select
import struct
import time

# From the cell.
PAGE, LOG, HTTP, SECRETS, PREVIEW, DONE, ERROR = 1, 2, 3, 4, 5, 6, 7
# From the host.
JOB, ANSWER = 1, 2

MAX_FRAME = 24 << 20
HEADER = struct.Struct("<IB")
PAIR = struct.Struct("<II")
# Authenticate, retries, seconds; then the lengths of method, address, headers and body (-1 for none).
REQUEST_HEAD = struct.Struct("<BBdHIIi")
# Status; then the lengths of address, headers and body.
ANSWER_HEAD = struct.Struct("<HIII")

# How long to busy-wait for an answer: longer than a small one takes, too short to matter.
MOMENT_SECONDS = 0.001

DEBUG, INFO, WARNING, ERROR_LEVEL = 0, 1, 2, 3


class ChannelClosed(Exception):
    """The host closed the channel."""


class Channel:
    """Blocking frames over one descriptor. Writing blocks while the host does not read: that is the backpressure."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._buffer = b""
        # An author may replace os.read; the channel keeps what it was built with.
        self._read = os.read
        self._write = os.write
        self._close = os.close
        self._clock = time.monotonic
        arrivals = select.poll()
        arrivals.register(descriptor, select.POLLIN)
        self._poll = arrivals.poll
        self._quick = False

    def send(self, kind, *parts):
        self._write_all(b"".join((HEADER.pack(sum(map(len, parts)), kind),) + parts))

    def send_json(self, kind, value):
        self.send(kind, json.dumps(value, allow_nan=False).encode("ascii"))

    def receive(self):
        self._fill(HEADER.size)
        length, kind = HEADER.unpack_from(self._buffer)
        end = HEADER.size + length
        self._fill(end)
        payload = self._buffer[HEADER.size : end]
        self._buffer = self._buffer[end:]
        return kind, payload

    def has_input(self):
        return bool(self._poll(0))

    def receive_answer(self):
        """The frame that answers a request. Waking a sleeping process takes longer than a small answer does, so while
        answers are quick this busy-waits for the next one for a moment. Where they are slow it sleeps at once."""
        clock = self._clock
        asked = clock()
        if self._quick:
            while not self.has_input() and clock() - asked < MOMENT_SECONDS:
                pass
        frame = self.receive()
        self._quick = clock() - asked < MOMENT_SECONDS
        return frame

    def close(self):
        self._close(self._descriptor)

    def _fill(self, wanted):
        """Reads until that many bytes are buffered; a small frame arrives whole with the first read."""
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


def pack_request(request):
    """The parts of one request: a header of fixed length, then the text and bytes whose lengths it gives."""
    method = request["method"].encode()
    url = request["url"].encode()
    headers = "\n".join([each for pair in request["headers"].items() for each in pair]).encode()
    body = request.get("body")
    timeout = request.get("timeout") or 0.0
    head = REQUEST_HEAD.pack(
        request.get("authenticate", True),
        min(max(request.get("retries") or 0, 0), 255),
        timeout if timeout > 0 else 0.0,
        len(method),
        len(url),
        len(headers),
        -1 if body is None else len(body),
    )
    return (head, method, url, headers) if body is None else (head, method, url, headers, body)


class HeaderLines:
    """Header names and values, alternating, one per line. Parsed only when somebody reads them."""

    __slots__ = ("_lines",)

    def __init__(self, lines):
        self._lines = lines

    def __iter__(self):
        parts = self._lines.decode().split("\n")
        return zip(parts[::2], parts[1::2])


def unpack_answers(payload):
    """The answers to a batch. One without a status is an error, and its address field holds the kind."""
    answers = []
    at = 0
    while at < len(payload):
        status, url, headers, body = ANSWER_HEAD.unpack_from(payload, at)
        at += ANSWER_HEAD.size
        address = payload[at : at + url].decode()
        at += url
        lines = payload[at : at + headers]
        at += headers
        if status:
            content = payload[at : at + body]
            answers.append({"status": status, "headers": HeaderLines(lines), "body": content, "url": address})
        else:
            answers.append({"error": {"kind": address, "message": lines.decode()}})
        at += body
    return answers
