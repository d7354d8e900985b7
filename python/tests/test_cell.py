"""The parts of a cell that can be tested without a host: the filter program, frames, logs, tracebacks, states."""

import errno
import json
import os
import struct
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from cell import operations, protocol, report, syscalls
from cell.host import DelayedAuthentication, LogStream, Transport
from cell.seal import Seal, SealError
from svc.source.records import RecordEncoder

ALLOWED, KILLED = "allowed", "killed"


def run_filter(program, machine, number, args=(0, 0, 0, 0, 0, 0), architecture=None):
    """What the kernel would answer: a small interpreter of the instructions that the filter uses."""
    arch = syscalls.AUDIT_ARCH[machine] if architecture is None else architecture
    data = struct.pack("<IIQ6Q", number, arch, 0, *args)
    accumulator = at = 0
    while True:
        code, if_true, if_false, k = struct.unpack_from("<HBBI", program, at * 8)
        at += 1
        if code == syscalls.LOAD:
            (accumulator,) = struct.unpack_from("<I", data, k)
        elif code == syscalls.AND:
            accumulator &= k
        elif code == syscalls.JUMP_EQUAL:
            at += if_true if accumulator == k else if_false
        elif code == syscalls.JUMP_GREATER_EQUAL:
            at += if_true if accumulator >= k else if_false
        elif code == syscalls.JUMP_SET:
            at += if_true if accumulator & k else if_false
        elif code == syscalls.RETURN:
            if k == syscalls.ALLOW:
                return ALLOWED
            return KILLED if k == syscalls.KILL_PROCESS else errno.errorcode[k & 0xFFFF]
        else:
            raise AssertionError(f"unknown instruction {code:#x}")


class SealTest(unittest.TestCase):
    @unittest.skipUnless(sys.platform.startswith("linux"), "parent-death signals exist only on Linux")
    def test_a_child_whose_parent_died_before_it_could_be_told_is_not_sealed(self):
        seal = Seal(64, 10, "none")
        seal.die_with_parent(os.getppid())
        with self.assertRaisesRegex(SealError, "the parent has died"):
            seal.die_with_parent(os.getpid())


class FilterTest(unittest.TestCase):
    def each(self):
        for machine, column in syscalls.COLUMN.items():
            yield machine, column, syscalls.build_filter(machine)

    def test_every_listed_call_gets_the_verdict_of_its_list(self):
        for machine, column, program in self.each():
            for calls, verdict in ((syscalls.ALLOWED, ALLOWED), (syscalls.ABSENT, "ENOSYS"), (syscalls.KILLED, KILLED)):
                for name, numbers in calls.items():
                    if numbers[column] is not None:
                        self.assertEqual(run_filter(program, machine, numbers[column]), verdict, (machine, name))

    def test_every_other_call_is_refused(self):
        for machine, column, program in self.each():
            lists = (syscalls.ALLOWED, syscalls.ABSENT, syscalls.KILLED)
            known = {numbers[column] for calls in lists for numbers in calls.values()}
            known |= {call[column] for call in (syscalls.MMAP, syscalls.MPROTECT, syscalls.FUTEX, syscalls.MADVISE)}
            for number in range(600):
                if number not in known:
                    self.assertEqual(run_filter(program, machine, number), "EPERM", (machine, number))

    def test_no_number_stands_on_two_lists(self):
        for machine, column, _ in self.each():
            lists = (syscalls.ALLOWED, syscalls.ABSENT, syscalls.KILLED)
            numbers = [each[column] for calls in lists for each in calls.values() if each[column] is not None]
            self.assertEqual(len(numbers), len(set(numbers)), machine)

    def test_memory_is_never_executable_and_never_a_file(self):
        for machine, column, program in self.each():
            mmap = lambda prot, flags: run_filter(program, machine, syscalls.MMAP[column], (0, 4096, prot, flags, 0, 0))
            self.assertEqual(mmap(3, 0x22), ALLOWED)
            self.assertEqual(mmap(7, 0x22), "EPERM")
            self.assertEqual(mmap(4, 0x22), "EPERM")
            self.assertEqual(mmap(1, 0x02), "EPERM")
            mprotect = lambda prot: run_filter(program, machine, syscalls.MPROTECT[column], (0, 4096, prot, 0, 0, 0))
            self.assertEqual([mprotect(1), mprotect(3), mprotect(5)], [ALLOWED, ALLOWED, "EPERM"])

    def test_only_harmless_futex_and_madvise_operations_pass(self):
        for machine, column, program in self.each():
            futex = lambda op: run_filter(program, machine, syscalls.FUTEX[column], (0, op, 0, 0, 0, 0))
            self.assertEqual([futex(op) for op in (0, 1, 9, 10, 128, 129, 265)], [ALLOWED] * 7)
            self.assertEqual([futex(op) for op in (3, 4, 6, 12, 134)], ["EPERM"] * 5)
            madvise = lambda advice: run_filter(program, machine, syscalls.MADVISE[column], (0, 4096, advice, 0, 0, 0))
            self.assertEqual([madvise(advice) for advice in (4, 8, 14, 15)], [ALLOWED] * 4)
            self.assertEqual([madvise(advice) for advice in (3, 9, 12, 100)], ["EPERM"] * 4)

    def test_another_architecture_and_the_second_table_kill(self):
        for machine, _, program in self.each():
            self.assertEqual(run_filter(program, machine, 0, architecture=0x40000003), KILLED)
            self.assertEqual(run_filter(program, machine, 0x40000000), KILLED)
        with self.assertRaises(ValueError):
            syscalls.build_filter("riscv64")


class ChannelTest(unittest.TestCase):
    def setUp(self):
        self.theirs, self.ours = os.pipe()
        self.addCleanup(os.close, self.theirs)

    def close(self):
        os.close(self.ours)

    def test_frames_come_as_they_were_sent(self):
        sender, receiver = protocol.Channel(self.ours), protocol.Channel(self.theirs)
        for payload in (b"", b"x", b"y" * 1000):
            sender.send(protocol.LOG, payload)
        sender.send_json(protocol.DONE, {"a": 1})
        self.close()
        self.assertEqual([receiver.receive() for _ in range(3)], [(2, b""), (2, b"x"), (2, b"y" * 1000)])
        self.assertEqual(receiver.receive(), (6, b'{"a": 1}'))
        with self.assertRaises(protocol.ChannelClosed):
            receiver.receive()

    def test_answers_are_awaited_whether_they_come_soon_or_late(self):
        sender, receiver = protocol.Channel(self.ours), protocol.Channel(self.theirs)
        for pause in (0, 0, 0.02, 0.02, 0):
            timer = threading.Timer(pause, sender.send, (protocol.ANSWER, b"%d" % (pause * 100)))
            timer.start()
            self.assertEqual(receiver.receive_answer(), (protocol.ANSWER, b"%d" % (pause * 100)))
            timer.join()
        self.close()
        with self.assertRaises(protocol.ChannelClosed):
            receiver.receive_answer()

    def test_a_frame_that_ends_early_is_the_end(self):
        os.write(self.ours, protocol.HEADER.pack(10, 1) + b"half")
        self.close()
        with self.assertRaises(protocol.ChannelClosed):
            protocol.Channel(self.theirs).receive()


class FakeChannel:
    """Stands for the host where only the bytes matter."""

    def __init__(self, answer=b""):
        self.sent = []
        self.answer = answer

    def send(self, kind, *parts):
        self.sent.append((kind, b"".join(parts)))

    def receive_answer(self):
        return protocol.ANSWER, self.answer


class HostTest(unittest.TestCase):
    def test_a_batch_of_requests_is_one_frame_and_one_answer(self):
        answer = protocol.ANSWER_HEAD.pack(200, 1, 7, 2) + b"u" + "a\né\nb\n".encode() + b"ok"
        failure = protocol.ANSWER_HEAD.pack(0, 7, 1, 0) + b"timeout" + b"m"
        channel = FakeChannel(answer + failure)
        request = {"method": "GET", "url": "u", "headers": {"A": "b", "C": "d"}, "timeout": 1.5, "retries": 2}
        answers = Transport(channel).request(
            [{**request, "body": b"in"}, {**request, "body": None, "authenticate": False}]
        )
        self.assertEqual((answers[0]["status"], answers[0]["body"], answers[0]["url"]), (200, b"ok", "u"))
        self.assertEqual(list(answers[0]["headers"]), [("a", "é"), ("b", "")])
        self.assertEqual(answers[1], {"error": {"kind": "timeout", "message": "m"}})
        ((kind, payload),) = channel.sent
        self.assertEqual(kind, protocol.HTTP)
        first = protocol.REQUEST_HEAD.pack(True, 2, 1.5, 3, 1, 7, 2) + b"GETu" + b"A\nb\nC\nd" + b"in"
        second = protocol.REQUEST_HEAD.pack(False, 2, 1.5, 3, 1, 7, -1) + b"GETu" + b"A\nb\nC\nd"
        self.assertEqual(payload, first + second)

    def test_odd_times_and_counts_are_made_plain(self):
        plain = {"method": "GET", "url": "u", "headers": {}}
        for given in ({}, {"timeout": -1.0, "retries": -1}, {"timeout": float("nan"), "retries": 0}):
            self.assertEqual(
                protocol.pack_request({**plain, **given})[0], protocol.REQUEST_HEAD.pack(True, 0, 0.0, 3, 1, 0, -1)
            )
        self.assertEqual(protocol.pack_request({**plain, "retries": 1000})[0][1], 255)

    def test_lines_are_written_when_they_are_complete(self):
        lines = []
        stream = LogStream(lambda level, text: lines.append((level, text)), "info")
        print("one", file=stream)
        print("two", end="", file=stream)
        self.assertEqual(lines, [("info", "one")])
        stream.finish()
        self.assertEqual(lines[1:], [("info", "two")])
        stream.write("x" * 70_000)
        self.assertEqual(len(lines), 3)

    def test_secrets_are_asked_for_once_and_only_when_read(self):
        asked = []

        class Cell:
            def request_secrets(self):
                asked.append(1)
                return {"token": "t"}

        authentication = DelayedAuthentication(Cell(), type("Source", (), {}), "bearer")
        self.assertEqual((authentication.type, repr(authentication), asked), ("bearer", "<authentication: bearer>", []))
        self.assertEqual(
            (authentication.params["token"], authentication.token, authentication["token"]), ("t", "t", "t")
        )
        self.assertEqual(len(asked), 1)


class ReportTest(unittest.TestCase):
    def failure(self, code):
        try:
            exec(compile(code, report.SOURCE_FILE, "exec"), {})
        except BaseException as error:
            return report.describe(error)

    def test_only_the_authors_lines_are_shown(self):
        told = self.failure("import json\ndef f():\n    json.loads('{')\nf()")
        self.assertEqual((told["kind"], told["type"], told["transient"]), ("source", "JSONDecodeError", False))
        self.assertIn('File "source.py", line 3, in f', told["traceback"])
        self.assertNotIn("decoder.py", told["traceback"])
        chained = self.failure("try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e")
        self.assertIn("KeyError: 'a'", chained["traceback"])
        self.assertNotIn(os.path.dirname(__file__), chained["traceback"])

    def test_an_exception_that_cannot_be_shown_is_still_told(self):
        told = self.failure("class E(Exception):\n    def __str__(self): return 1 / 0\nraise E()")
        self.assertEqual(told["type"], "E")
        self.assertIn("cannot be shown", told["text"])

    def test_what_the_engine_should_do_follows_from_the_error(self):
        for code, kind, transient in (
            ("from svc.http import *; raise ConnectionFailed('x')", "source", True),
            ("from svc.http import *; raise UnknownHost('x')", "source", False),
            ("from svc.http import *; raise LimitExceeded('x')", "limit", False),
            ("from svc.http import *; raise AuthenticationFailed('x')", "auth", False),
            ("from svc.http import *; Response(401, [], b'', 'u').raise_for_status()", "auth", False),
            ("from svc.http import *; Response(429, [], b'', 'u').raise_for_status()", "rate_limited", True),
            ("from svc.http import *; Response(500, [], b'', 'u').raise_for_status()", "source", True),
            ("from svc.http import *; Response(404, [], b'', 'u').raise_for_status()", "source", False),
            ("from svc.http import *; Response(503, [], b'<html>', 'u').json()", "source", True),
            ("from svc.http import *; Response(200, [], b'<html>', 'u').json()", "source", False),
            ("from svc.source.models import ConfigError; raise ConfigError('x')", "config", False),
            ("raise SystemExit(3)", "source", False),
        ):
            told = self.failure(code)
            self.assertEqual((told["kind"], told["transient"]), (kind, transient), code)


    def test_a_traceback_names_exceptions_by_the_module_they_can_be_imported_from(self):
        told = self.failure("from svc.http import *; Response(500, [], b'', 'u').raise_for_status()")
        self.assertIn("svc.http.StatusError: ", told["traceback"])
        told = self.failure("from svc.source.models import ConfigError; raise ConfigError('x')")
        self.assertIn("svc.source.models.ConfigError: x", told["traceback"])


class StateTest(unittest.TestCase):
    class Source:
        state = {}

        def get_streams(self):
            return ["a"]

    def read(self, get_records, given=None, page_bytes=40):
        source = self.Source()
        source.state = json.loads(json.dumps(given or {}))
        source.get_records = lambda stream: get_records(source)
        cell = type("Cell", (), {"channel": FakeChannel()})()
        before = operations.PAGE_BYTES
        operations.PAGE_BYTES = page_bytes
        try:
            operations.send_pages(cell, {"state": given}, source, None, "a")
        finally:
            operations.PAGE_BYTES = before
        pages = []
        for _, payload in cell.channel.sent:
            records, length = protocol.PAIR.unpack_from(payload)
            state = json.loads(payload[8 : 8 + length]) if length else None
            lines = payload[8 + length :].splitlines()
            self.assertEqual(len(lines), records)
            pages.append(([json.loads(line)["i"] for line in lines], state))
        return pages

    def test_a_page_is_cut_where_the_state_was_set(self):
        def get_records(source):
            for i in range(1, 8):
                yield {"i": i}
                if i in (2, 5):
                    source.state = {"last": i}

        pages = self.read(get_records, page_bytes=10_000)
        self.assertEqual(pages, [([1, 2, 3, 4, 5], {"last": 5}), ([6, 7], None)])

    def test_every_state_stands_for_what_came_before_it(self):
        def get_records(source):
            for i in range(1, 50):
                yield {"i": i}
                if i % 3 == 0:
                    source.state["last"] = i

        for page_bytes in (1, 60, 100, 500):
            seen = []
            for records, state in self.read(get_records, page_bytes=page_bytes):
                seen += records
                if state is not None:
                    self.assertEqual(seen, list(range(1, state["last"] + 1)), page_bytes)
            self.assertEqual(seen, list(range(1, 50)))

    def test_a_state_set_after_a_list_stands_for_all_of_it(self):
        def get_records(source):
            yield [{"i": 1}, {"i": 2}]
            source.state["last"] = 2
            yield ({"i": 3}, {"i": 4}, {"i": 5})
            source.state["last"] = 5
            yield {"i": 6}

        for page_bytes in (1, 10_000):
            seen = []
            for records, state in self.read(get_records, page_bytes=page_bytes):
                seen += records
                if state is not None:
                    self.assertEqual(seen, list(range(1, state["last"] + 1)), page_bytes)
            self.assertEqual(seen, [1, 2, 3, 4, 5, 6])

    def test_a_list_and_a_state_set_first_count_at_the_end(self):
        def as_list(source):
            source.state["done"] = True
            return [{"i": 1}, {"i": 2}]

        def set_first(source):
            source.state["done"] = True
            yield {"i": 1}
            yield {"i": 2}

        for get_records in (as_list, set_first):
            pages = self.read(get_records, page_bytes=1)
            self.assertEqual([state for records, state in pages if records], [None, None])
            self.assertEqual(pages[-1], ([], {"done": True}))

    def test_a_state_that_did_not_change_is_not_sent(self):
        pages = self.read(lambda source: iter([{"i": 1}]), {"last": 1})
        self.assertEqual(pages, [([1], None)])

    def test_a_state_that_is_too_large_is_refused(self):
        def get_records(source):
            yield {"i": 1}
            source.state["all"] = "x" * (2 << 20)

        with self.assertRaises(report.JobError):
            self.read(get_records)

    def test_lines_are_counted_by_their_ends(self):
        page = RecordEncoder().join_lines(['{"a":1}', '{"b":"\\n"}', "{}"])
        self.assertEqual([operations.end_of_line(page, lines) for lines in range(4)], [0, 8, 19, 22])


if __name__ == "__main__":
    unittest.main()
