import assert from 'node:assert/strict'
import { test } from 'node:test'
import { previewSource } from '../../src/cell/preview.ts'
import { openCells, readSource, SMALL_LIMITS, writeSource } from './harness.ts'

const zygote = openCells({ limits: SMALL_LIMITS })
const read = (body: string, rest = '') => readSource(zygote, writeSource(body, rest))

test('generators and yield from return their records in order', async () => {
  const { records, failure } = await read(`
def pages():
    for page in range(3):
        yield from (SourceRecord(f"{page}-{i}", {"page": page, "i": i}) for i in range(2))
yield from pages()
yield SourceRecord("last", {})`)
  assert.equal(failure, null)
  assert.deepEqual(
    records.map((record) => record._record_id),
    ['0-0', '0-1', '1-0', '1-1', '2-0', '2-1', 'last'],
  )
})

test('a list works like a generator, and plain dicts get a stable id', async () => {
  const code = 'return [{"x": 1}, {"x": 2}, {"x": 1}]'
  const { records } = await read(code)
  assert.deepEqual(
    records.map(({ x }) => x),
    [1, 2, 1],
  )
  assert.equal(records[0]._record_id, records[2]._record_id)
  assert.deepEqual((await read(code)).records, records)
})

test('lists and tuples of records may be yielded, and count as the records in them', async () => {
  const body =
    'for page in range(3): yield [SourceRecord(f"{page}-{i}", {"i": i}) for i in range(2)]\nyield ({"i": 9},)'
  const { records, failure } = await read(body)
  assert.equal(failure, null)
  const ids = ['0-0', '0-1', '1-0', '1-1', '2-0', '2-1']
  assert.deepEqual(
    records.slice(0, 6).map((record) => record._record_id),
    ids,
  )
  assert.equal(records[6].i, 9)
  const preview = await previewSource({ code: writeSource(body), stream: 'a', max_records: 3, zygote })
  const previewed = JSON.parse(String(preview.records)) as { id: string }[]
  assert.deepEqual([preview.error, previewed.map(({ id }) => id)], [null, ids.slice(0, 3)])
})

test('values that JSON does not have become text, and no digit is lost', async () => {
  const { lines, logs, failure } = await read(
    `
yield SourceRecord("1", {
    "day": datetime.date(2024, 2, 29), "time": datetime.datetime(2024, 2, 29, 1, 2, 3, tzinfo=datetime.timezone.utc),
    "exact": decimal.Decimal("12345678901234567890.123456789"), "raw": b"\\x00\\xff", "none": None, "nan": float("nan"),
    "big": 2**200, "pair": ("a", 1), "text": "lone \\ud800 and zero \\x00"})`,
    'import datetime, decimal',
  )
  assert.equal(failure, null)
  const line = lines[0]!
  assert.match(line, /"day":"2024-02-29"/)
  assert.match(line, /"time":"2024-02-29T01:02:03\+00:00"/)
  assert.match(line, /"exact":12345678901234567890\.123456789[,}]/)
  assert.match(line, new RegExp(`"big":${2n ** 200n}[,}]`))
  const { raw, none, nan, pair, text } = JSON.parse(line)
  assert.deepEqual({ raw, none, nan, pair }, { raw: 'AP8=', none: null, nan: null, pair: ['a', 1] })
  assert.equal(text, 'lone \ufffd and zero \u0000')
  assert.ok(logs.some((each) => each.includes('written as null')))
})

test("an exception halfway keeps the records before it, and its traceback shows only the author's lines", async () => {
  const { records, failure, logs } = await read(`
for i in range(5000):
    yield SourceRecord(str(i), {"text": "x" * 100})
def inner(value):
    return {}[value]
inner("missing")`)
  assert.ok(records.length > 1000 && records.length <= 5000)
  assert.equal(failure?.kind, 'source')
  assert.equal(failure.message, "KeyError: 'missing'")
  assert.match(failure.traceback, /File "source.py", line \d+, in inner\n\s+return \{\}\[value\]/)
  assert.doesNotMatch(failure.traceback, /operations|runner|records\.py|\/usr|python3/)
  assert.ok(logs.some((line) => line.startsWith('source: ') && line.includes('in inner')))
})

test('what is not a record is refused with its type', async () => {
  for (const [body, message] of [
    ['yield None', /get_records yielded None/],
    ['yield [[]]', /yield a record, or a list of records/],
    ['yield (each for each in ())', /write `yield from` instead of `yield`/],
    ['return None', /get_records returned NoneType/],
    ['yield SourceRecord(object(), {})', /id of a record must be a string or a number/],
    ['yield SourceRecord("1", {"a": object()})', /type object cannot be written as JSON/],
    ['yield SourceRecord("1", [1])', /data of a record must be an object/],
  ] as const) {
    const { failure } = await read(body)
    assert.equal(failure?.kind, 'source', body)
    assert.match(failure.message, message)
  }
})

test('records of five megabytes pass, records above the limit do not', async () => {
  const { records, failure } = await read(`
for i in range(3):
    yield SourceRecord(str(i), {"text": "é" * 2_500_000})`)
  assert.equal(failure, null)
  assert.deepEqual(
    records.map(({ text }) => text.length),
    [2_500_000, 2_500_000, 2_500_000],
  )
  const large = await read('yield SourceRecord("1", {"text": "x" * 17_000_000})')
  assert.match(large.failure?.message ?? '', /over the limit of 16777216 bytes per record/)
})

test("a record that nests too deeply is reported as the source's fault", async () => {
  for (const before of ['', 'yield {"first": 1}\n']) {
    const { failure } = await read(
      `${before}deep = {}\nfor _ in range(80): deep = {"a": deep}\nyield SourceRecord("1", deep)`,
    )
    assert.equal(failure?.kind, 'source')
    assert.match(failure.message, /nested deeper than 64 levels/)
  }
})

test('infinite recursion is an error of the source', async () => {
  const { failure } = await read('def f(n): return f(n + 1)\nyield f(0)')
  assert.equal(failure?.kind, 'source')
  assert.match(failure.message, /^RecursionError/)
})

test('an exit is a failure, whatever its code', async () => {
  for (const body of ['raise SystemExit', 'raise SystemExit(0)', 'raise KeyboardInterrupt', 'exit_now()']) {
    const { failure } = await read(
      `yield SourceRecord("1", {})\n${body}`,
      'from os import _exit\ndef exit_now(): _exit(0)',
    )
    assert.equal(failure?.kind, 'source', body)
  }
})

test('print, the log and the logging module reach the owner line by line', async () => {
  const { logs, failure } = await read(
    `
print("one"); print("two\\nthree", end="")
self.log.info("four %s", 4)
logging.getLogger("x").warning("five")
yield SourceRecord("1", {})`,
    'import logging',
  )
  assert.equal(failure, null)
  assert.deepEqual(logs.toSorted(), ['source: five', 'source: four 4', 'source: one', 'source: three', 'source: two'])
})

test('time zones, codecs and parsers work without a single file', async () => {
  const { records, failure } = await read(
    `
import datetime, zoneinfo, codecs, hashlib, uuid, random, statistics, csv, xml.etree.ElementTree as tree
moment = datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("America/New_York"))
yield SourceRecord("1", {
    "zone": moment.isoformat(), "parsed": datetime.datetime.strptime("1 May 2024", "%d %B %Y").isoformat(),
    "coded": "Grüße".encode("cp1252").decode("latin-1"), "japan": b"\\x83\\x65".decode("shift_jis"),
    "hash": hashlib.sha3_256(b"x").hexdigest()[:8], "uuid": len(str(uuid.uuid4())), "name": "\\N{BULLET}",
    "random": 0 <= random.random() < 1, "mean": statistics.mean([1, 2, 3]),
    "xml": tree.fromstring("<a><b>1</b></a>").find("b").text, "idna": "bücher.de".encode("idna").decode()})`,
  )
  assert.equal(failure, null)
  assert.deepEqual(records[0], {
    _record_id: '1',
    zone: '2024-07-01T00:00:00-04:00',
    parsed: '2024-05-01T00:00:00',
    coded: 'Grüße',
    japan: 'テ',
    hash: records[0].hash,
    uuid: 36,
    name: '•',
    random: true,
    mean: 2,
    xml: '1',
    idna: 'xn--bcher-kva.de',
  })
})

test('functions that import something when called work too', async () => {
  const { records, failure } = await read(`
import email, email.policy, functools, random, statistics, string, typing, uuid, warnings, dataclasses, csv, gzip, copy
from xml.dom import minidom
@dataclasses.dataclass
class Point:
    x: "int" = 1
@functools.singledispatch
def kind(value): return "other"
@kind.register
def _(value: int): return "int"
message = email.message_from_string("Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\\nFrom: a@b.example\\n\\nbody", policy=email.policy.default)
warnings.warn("said once")
yield SourceRecord("1", {
    "xml": minidom.parseString("<a><b>1</b></a>").toprettyxml(indent="")[:21], "subject": str(message["subject"]),
    "hints": str(typing.get_type_hints(Point)), "kind": kind(1), "sample": len(random.sample(range(10), 3)),
    "normal": statistics.NormalDist(0, 1).mean, "template": string.Template("$a").substitute(a=1),
    "uuid": uuid.uuid5(uuid.NAMESPACE_DNS, "a"), "zip": gzip.decompress(gzip.compress(b"x")).decode(),
    "copy": copy.deepcopy(Point()).x, "sniff": csv.Sniffer().sniff("a;b\\n1;2\\n").delimiter})`)
  assert.equal(failure, null)
  assert.equal(records[0].subject, 'Grüße')
  assert.deepEqual([records[0].sniff, records[0].kind, records[0].zip], [';', 'int', 'x'])
})

test('for an unknown stream, the existing ones are listed', async () => {
  const { failure } = await readSource(zygote, writeSource('yield {}').replace('["a"]', '["b", "c"]'))
  assert.equal(failure?.kind, 'config')
  assert.match(failure.message, /unknown stream 'a'; the source has: b, c/)
})

test('a source sees its settings, and reading a missing one is an error', async () => {
  const rest = `
from svc.source.models import SourceConfig
class Settings(SourceConfig):
    size: int
    name: str = "x"`
  const code = writeSource('yield SourceRecord("1", {"size": self.config.size, "name": self.config.name})', rest)
  const { records } = await readSource(zygote, code, { config: { size: 3 } })
  assert.deepEqual(records, [{ _record_id: '1', size: 3, name: 'x' }])
  const { failure } = await readSource(zygote, code)
  assert.equal(failure?.kind, 'config')
  assert.match(failure.message, /'size' is missing/)
})
