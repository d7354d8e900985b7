import base64
import dataclasses
import datetime
import enum
import hashlib
import json
import math
import unittest
import uuid
from collections import namedtuple
from decimal import Decimal

from harness import LogLines

from svc.source.models import Record, SourceRecord
from svc.source.records import MAX_DEPTH, RecordEncoder, RecordError, encode_page, preview_record, to_json


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Label(str, enum.Enum):
    A = "a"


@dataclasses.dataclass
class Point:
    x: int
    inner: object = None


def line_of(item, **options):
    return encode_page([item], RecordEncoder(**options)).decode()


def data_of(value):
    return json.loads(line_of(SourceRecord("1", {"v": value})))["v"]


class Lines(unittest.TestCase):
    def test_a_line_has_the_id_first_and_then_the_data_in_its_order(self):
        self.assertEqual(
            line_of(SourceRecord("7", {"b": 1, "a": [True, None]})),
            '{"_record_id":"7","b":1,"a":[true,null]}\n',
        )

    def test_a_record_without_data_is_its_id(self):
        self.assertEqual(line_of(SourceRecord("7")), '{"_record_id":"7"}\n')

    def test_the_id_of_a_record_wins_over_a_field_of_that_name(self):
        self.assertEqual(line_of(SourceRecord("7", {"_record_id": "no", "a": 1})), '{"_record_id":"7","a":1}\n')

    def test_a_plain_dict_is_a_record_and_may_bring_its_id(self):
        self.assertEqual(line_of({"_record_id": "x", "a": 1}), '{"_record_id":"x","a":1}\n')

    def test_ids_become_text(self):
        when = datetime.date(2024, 1, 2)
        for given, expected in (
            (5, "5"),
            (Decimal("1.50"), "1.50"),
            (uuid.UUID(int=1), str(uuid.UUID(int=1))),
            (when, "2024-01-02"),
            (Colour.RED, "red"),
        ):
            self.assertEqual(json.loads(line_of(SourceRecord(given, {"a": 1})))["_record_id"], expected)

    def test_ids_in_a_page_are_as_in_a_single_line(self):
        ids = ["7", 'quo"te', 0, -5, 2**70, Level.HIGH, 1.5, uuid.UUID(int=1), "", None]
        for each in ids:
            record = SourceRecord(each, {"a": 1})
            ((page, _),) = RecordEncoder().encode_pages([record])
            self.assertEqual(page, encode_page([record]))
        with self.assertRaises(TypeError):
            list(RecordEncoder().encode_pages([SourceRecord(True, {"a": 1})]))

    def test_a_record_without_an_id_gets_a_hash_that_the_order_of_fields_does_not_change(self):
        first = json.loads(line_of({"a": 1, "b": {"x": 1, "y": {3, 1, 2}}}))["_record_id"]
        second = json.loads(line_of(SourceRecord(None, {"b": {"y": {1, 2, 3}, "x": 1}, "a": 1})))["_record_id"]
        self.assertEqual(first, second)
        self.assertRegex(first, r"^[0-9a-f]{32}$")
        self.assertNotEqual(first, json.loads(line_of({"a": 2}))["_record_id"])

    def test_the_hash_is_the_same_in_every_process(self):
        record = {"a": 1, "d": Decimal("1.10"), 5: None, "t": datetime.date(2024, 1, 1)}
        canonical = '{"5":null,"a":1,"d":1.10,"t":"2024-01-01"}'
        self.assertEqual(json.loads(line_of(record))["_record_id"], hashlib.sha256(canonical.encode()).hexdigest()[:32])

    def test_every_page_equals_the_same_lines_one_by_one(self):
        records = [SourceRecord(str(n), {"n": n, "text": "é" * (n % 50)}) for n in range(3000)]
        pages = list(RecordEncoder().encode_pages(records, page_bytes=10_000))
        self.assertGreater(len(pages), 5)
        self.assertEqual(sum(count for _, count in pages), 3000)
        self.assertTrue(all(page.count(b"\n") == count for page, count in pages))
        self.assertEqual(b"".join(page for page, _ in pages), encode_page(records))

    def test_a_list_or_tuple_stands_for_the_records_in_it(self):
        one, two, three = SourceRecord("1", {"a": 1}), {"_record_id": "2", "b": 2}, SourceRecord("3", {"c": 3})
        for items in (
            [[one, two, three]],
            [(one, two), three],
            [one, [two], (three,)],
            [[], one, (), [two, three]],
            iter([one, [two, three]]),
        ):
            ((page, count),) = RecordEncoder().encode_pages(items)
            self.assertEqual((page, count), (encode_page([one, two, three]), 3))
        pages = list(RecordEncoder().encode_pages([[{"n": n} for n in range(1000)]] * 3, page_bytes=5000))
        self.assertGreater(len(pages), 5)
        self.assertEqual(sum(count for _, count in pages), 3000)

    def test_a_list_in_a_list_is_refused(self):
        for items in ([[[]]], [[{"a": 1}, (1, 2)]], [({"a": 1}, [{"a": 2}])]):
            with self.assertRaisesRegex(TypeError, "yield a record, or a list of records"):
                list(RecordEncoder().encode_pages(items))
        with self.assertRaisesRegex(TypeError, "yielded an object of type int"):
            list(RecordEncoder().encode_pages([[{"a": 1}, 5]]))

    def test_a_slow_source_gives_a_page_when_the_time_is_up(self):
        pages = list(RecordEncoder().encode_pages(iter([{"a": 1}, {"a": 2}]), flush_seconds=0))
        self.assertEqual([count for _, count in pages], [1, 1])


class Values(unittest.TestCase):
    def test_dates_and_times_are_iso_8601(self):
        utc = datetime.timezone.utc
        self.assertEqual(data_of(datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=utc)), "2024-01-02T03:04:05+00:00")
        self.assertEqual(data_of(datetime.date(2024, 1, 2)), "2024-01-02")
        self.assertEqual(data_of(datetime.time(3, 4)), "03:04:00")
        self.assertEqual(data_of(datetime.timedelta(minutes=1.5)), 90.0)

    def test_a_decimal_is_a_number_with_all_its_digits(self):
        for digits in ("1.10", "123456789012345678901234567890.123456789", "1E+30", "-1E-10", "0E-10"):
            self.assertIn(f'"v":{digits}}}', line_of(SourceRecord("1", {"v": Decimal(digits)})))
        self.assertIn(
            '"v":[1.10,{"w":2.20}]',
            line_of(SourceRecord("1", {"v": [Decimal("1.10"), {"w": Decimal("2.20")}]})),
        )

    def test_text_that_looks_like_a_decimal_stays_text(self):
        line = line_of(SourceRecord("1.5", {"d": Decimal("1.5"), "s": "1.5"}))
        self.assertEqual(line, '{"_record_id":"1.5","d":1.5,"s":"1.5"}\n')

    def test_integers_of_any_size_stay_whole(self):
        self.assertIn(str(2**70), line_of(SourceRecord("1", {"v": 2**70})))
        self.assertIn("1" + "0" * 5000 + "}", line_of(SourceRecord("1", {"v": 10**5000})))

    def test_other_types(self):
        pair = namedtuple("pair", "a b")
        self.assertEqual(data_of(uuid.UUID(int=5)), str(uuid.UUID(int=5)))
        self.assertEqual(base64.b64decode(data_of(b"\x00\xff")), b"\x00\xff")
        self.assertEqual(data_of(bytearray(b"abc")), "YWJj")
        self.assertEqual(data_of({3, 1, 2}), [1, 2, 3])
        self.assertEqual(data_of({"a", 1}), sorted({"a", 1}, key=repr))
        self.assertEqual(data_of((1, (2,))), [1, [2]])
        self.assertEqual(data_of(pair(1, 2)), [1, 2])
        self.assertEqual([data_of(each) for each in (Colour.RED, Level.HIGH, Label.A)], ["red", 3, "a"])
        self.assertEqual(data_of(Point(1, Point(2))), {"x": 1, "inner": {"x": 2, "inner": None}})
        self.assertEqual(data_of(range(3)), [0, 1, 2])
        self.assertEqual(data_of({"a": 1}.keys()), ["a"])

    def test_nan_and_infinity_are_null_with_one_warning(self):
        log = LogLines()
        encoder = RecordEncoder(log)
        page = encode_page([{"a": math.nan, "b": [math.inf, -math.inf, 1.5]}, {"a": Decimal("NaN")}], encoder)
        first, second = map(json.loads, page.splitlines())
        self.assertEqual((first["a"], first["b"], second["a"]), (None, [None, None, 1.5], None))
        self.assertEqual(len(log.lines), 1)
        self.assertIn("data.a is nan", log.lines[0][1])

    def test_keys_become_text(self):
        keys = {1: "a", None: "b", True: "c", (1, 2): "d", datetime.date(2024, 1, 1): "e", Colour.RED: "f", 2.5: "g"}
        record = json.loads(line_of(SourceRecord("1", {"v": keys})))["v"]
        self.assertEqual(set(record.values()), set("cbdefg"))
        self.assertEqual(record["2024-01-01"], "e")
        self.assertEqual(record["null"], "b")

    def test_lone_surrogates_become_u_fffd_and_pairs_their_character(self):
        line = encode_page([SourceRecord("\udc00", {"a": "x\ud800y", "b": "\ud83d\ude00", "\ud800": 1})])
        self.assertEqual(
            json.loads(line.decode("utf-8")),
            {"_record_id": "\ufffd", "a": "x\ufffdy", "b": "😀", "\ufffd": 1},
        )

    def test_nul_is_kept_as_an_escape(self):
        self.assertIn(r'"a\u0000b"', line_of(SourceRecord("1", {"v": "a\x00b"})))

    def test_a_newline_in_text_never_splits_a_line(self):
        page = encode_page([SourceRecord("1\n", {"v": "a\nb\r\n\u2028"})])
        self.assertEqual(page.count(b"\n"), 1)


class Refusals(unittest.TestCase):
    def refuse(self, item, kind, *words):
        for encode in (lambda: list(RecordEncoder().encode_pages([item])), lambda: preview_record(item)):
            with self.assertRaises(kind) as caught:
                encode()
            for word in words:
                self.assertIn(word, str(caught.exception))

    def test_what_is_no_record_is_named(self):
        self.refuse(None, TypeError, "yielded None", "SourceRecord")
        self.refuse(5, TypeError, "type int")
        self.refuse((n for n in ()), TypeError, "type generator", "`yield from`")
        self.refuse(SourceRecord, TypeError, "the class SourceRecord")

    def test_data_that_is_no_object_is_named(self):
        self.refuse(SourceRecord("1", [1]), TypeError, "must be an object", "list")

    def test_an_id_that_is_no_text_or_number_is_named(self):
        for bad in (object(), (1, 2), True, b"x"):
            self.refuse(SourceRecord(bad, {"a": 1}), TypeError, "id of a record", type(bad).__name__)

    def test_a_value_without_a_place_in_json_is_named_with_its_field(self):
        self.refuse(SourceRecord("1", {"a": {"b": object()}}), RecordError, "type object", "data.a.b")
        self.refuse(SourceRecord("1", {"a": (n for n in ())}), RecordError, "generator")

    def test_a_record_over_the_limit_names_the_limit(self):
        with self.assertRaisesRegex(RecordError, "1000 bytes per record"):
            list(RecordEncoder(max_record_bytes=1000).encode_pages([SourceRecord("1", {"a": "é" * 600})]))
        pages = list(RecordEncoder(max_record_bytes=1000).encode_pages([SourceRecord("1", {"a": "e" * 900})]))
        self.assertEqual(pages[0][1], 1)

    def test_a_record_of_five_megabytes_passes(self):
        ((page, count),) = RecordEncoder().encode_pages([SourceRecord("1", {"a": "x" * 5_000_000})])
        self.assertEqual((count, len(page)), (1, 5_000_026))

    def test_nesting_is_limited_and_a_circle_is_found(self):
        deepest = {}
        for _ in range(MAX_DEPTH - 1):
            deepest = {"a": deepest}
        self.assertTrue(encode_page([SourceRecord("1", deepest)]))
        self.refuse(SourceRecord("1", {"a": deepest}), RecordError, "deeper than 64")
        circle = {}
        circle["a"] = [circle]
        self.refuse(SourceRecord("1", circle), RecordError, "refers to itself")

    def test_brackets_in_text_are_no_nesting(self):
        self.assertTrue(encode_page([SourceRecord("1", {"a": "[" * 500, "b": '\\"{' * 100})]))


class Previews(unittest.TestCase):
    def test_a_preview_has_id_and_data_by_the_same_rules(self):
        item = Record(4, {"d": datetime.date(2024, 1, 1), "n": Decimal("1.5"), "_record_id": "x"})
        self.assertEqual(preview_record(item), {"id": "4", "data": {"d": "2024-01-01", "n": 1.5}})
        self.assertEqual(
            RecordEncoder().preview_line(Record("1", {"n": Decimal("1.10")})),
            b'{"id":"1","data":{"n":1.10}}',
        )

    def test_state_and_bodies_are_encoded_by_the_same_rules(self):
        self.assertEqual(
            to_json({"since": datetime.date(2024, 1, 1), "n": [Decimal("1.10")]}),
            b'{"since":"2024-01-01","n":[1.10]}',
        )


if __name__ == "__main__":
    unittest.main()
