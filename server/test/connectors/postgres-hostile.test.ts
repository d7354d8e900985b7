/** A malicious server: what it sends must neither reach another database as SQL nor keep us busy forever. */
import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { describe, it } from 'node:test'
import { ConnectorError } from '../../src/connectors/contract.ts'
import { createPageQueue } from '../../src/connectors/postgres/destination/page-queue.ts'
import { copyHeader, copyTrailer } from '../../src/connectors/postgres/shared/native-rows.ts'
import type { Session } from '../../src/connectors/postgres/shared/session.ts'
import { isTypeName, keptType } from '../../src/connectors/postgres/shared/type-names.ts'
import {
  orNull,
  readBoolean,
  readInteger,
  readJson,
  readRows,
  readText,
  readTexts,
  type Shape,
} from '../../src/connectors/postgres/shared/values.ts'
import { type CopyOptions, copyOut } from '../../src/connectors/postgres/source/copy-out.ts'
import { describeStream } from '../../src/connectors/postgres/source/relation.ts'
import { describeTypes } from '../../src/connectors/postgres/source/types.ts'
import { frame, int16, int32 } from '../harness/postgres-frames.ts'

describe('types that a source declares', () => {
  const declare = (type: string) =>
    createPageQueue({
      encoding: 'tsv',
      declared: [{ name: 'a', type: 'text', native: { system: 'postgres', type } }],
      existing: null,
      contract: 'evolve',
    })

  it('are refused if they are not types, because they become part of a statement in the destination', () => {
    for (const type of [
      'int4); DROP TABLE people; --',
      'text DEFAULT current_user',
      'int4 REFERENCES people',
      'text COLLATE "C"',
      'public.mood',
      '"char"',
      'int4\n',
      '',
    ])
      assert.throws(() => declare(type), /a type that PostgreSQL does not have/, type)
    const neutral = { name: 'a', type: 'int4); DROP TABLE people; --' as 'text' }
    const queue = { encoding: 'tsv', declared: [neutral], existing: null, contract: 'evolve' } as const
    assert.throws(() => createPageQueue({ ...queue, declared: [neutral] }), /a type that PostgreSQL does not have/)
  })

  it('are accepted in every form in which PostgreSQL writes them', () => {
    for (const type of [
      'int8',
      'bigint',
      'numeric(10,2)',
      'numeric(3,-2)',
      'character varying(255)',
      'double precision',
      'timestamp(3) without time zone',
      'time with time zone',
      'interval day to second(3)',
      'interval year to month',
      'bit varying(5)',
      'text[]',
      'numeric(10,2)[]',
      'timestamp with time zone[]',
      'tstzrange',
      'nummultirange',
    ])
      assert.ok(isTypeName(type), type)
    assert.equal(declare('numeric(10,2)').shape.written()[0]?.type, 'numeric(10,2)')
  })

  it('stored from another database become text if only that one has them', () => {
    const native = (type: string) => ({ name: 'a', type: 'text', native: { system: 'postgres', type } }) as const
    assert.equal(keptType({ name: 'a', type: 'int64' }), 'int8')
    assert.equal(keptType(native('int4range')), 'int4range')
    assert.equal(keptType(native('mood); DROP TABLE people; --')), 'text')
  })
})

function readTable(options: CopyOptions = {}): { stream: PassThrough; rows: ReturnType<typeof copyOut> } {
  const stream = new PassThrough()
  stream.on('data', () => {})
  const session = {
    client: { query: (copy: { submit(wire: object): void }) => copy.submit({ query() {}, stream }) },
  } as unknown as Session
  return { stream, rows: copyOut(session, 'COPY people TO STDOUT', options) }
}

it('a message with an impossible length ends the reading', { timeout: 10_000 }, async () => {
  for (const length of [0, 3, 0x80000000, 0xffffffff]) {
    const { stream, rows } = readTable()
    const next = rows.next()
    const message = Buffer.from('d\0\0\0\0 some bytes that follow it')
    message.writeUInt32BE(length, 1)
    stream.write(message)
    await assert.rejects(next, /impossible length/)
    assert.ok(stream.destroyed)
  }
})

it('an endless row ends the reading before it fills memory, and its cost stays linear', async () => {
  const { stream, rows } = readTable()
  const next = rows.next()
  const piece = frame('d', Buffer.alloc(1 << 16, 'x'))
  const started = process.cpuUsage()
  const send = (): void => {
    while (!stream.destroyed) if (!stream.write(piece)) return void stream.once('drain', send)
  }
  stream.on('error', () => {})
  send()
  await assert.rejects(next, /a row of more than 128 MB/)
  assert.ok(process.cpuUsage(started).user < 5_000_000)
})

describe('rows in binary form', () => {
  const row = (...fields: string[]) =>
    Buffer.concat([
      int16(fields.length),
      ...fields.map((text) => Buffer.concat([int32(text.length), Buffer.from(text)])),
    ])
  const first = frame('d', copyHeader, row('one', 'two'))
  const message = frame('d', row('three', 'four'))

  it('are counted by message, whole, however they are split', { timeout: 10_000 }, async () => {
    for (const size of [1, 3, 7, 20, 1000]) {
      const { stream, rows } = readTable({ fields: 2, pageBytes: 60 })
      const bytes = Buffer.concat([first, ...new Array<Buffer>(20).fill(message)])
      let next = rows.next()
      for (let at = 0; at < bytes.length; at += size) stream.write(bytes.subarray(at, at + size))
      let read = Buffer.alloc(0)
      for (let count = 0; count < 18; next = rows.next()) {
        const page = (await next).value!
        count += page.count
        read = Buffer.concat([read, page.bytes])
        assert.equal(read.length, row('one', 'two').length + (count - 1) * row('three', 'four').length)
      }
      assert.ok(Buffer.concat([row('one', 'two'), ...new Array<Buffer>(20).fill(row('three', 'four'))]).includes(read))
    }
  })

  const wrong = {
    'a header that is not one': [frame('d', 'PGCOPY\n', Buffer.alloc(12), row('one', 'two'))],
    'flags in the header': [frame('d', Buffer.from(copyHeader).fill(1, 14, 15), row('one', 'two'))],
    'no header': [message, message],
    'a row with fewer fields': [first, frame('d', row('one'))],
    'an empty message': [first, frame('d')],
    'rows after the end': [first, frame('d', copyTrailer), message],
  }
  for (const [what, messages] of Object.entries(wrong)) {
    it(`end the reading: ${what}`, { timeout: 10_000 }, async () => {
      const { stream, rows } = readTable({ fields: 2 })
      const next = rows.next()
      for (const each of messages) stream.write(each)
      await assert.rejects(next, /The server sent (rows|a row)/)
      assert.ok(stream.destroyed)
    })
  }
})

it('a row longer than many pages is read completely', async () => {
  const { stream, rows } = readTable()
  const next = rows.next()
  stream.write(frame('d', Buffer.alloc(3 << 20, 'x'), '\tend\nnext'))
  stream.write(frame('d', ' row\n', Buffer.alloc(1 << 19, 'y'), '\n'))
  const { value } = await next
  assert.equal(value!.bytes.toString('latin1', (3 << 20) - 1), 'x\tend\n')
  const rest = (await rows.next()).value!
  assert.deepEqual([rest.count, rest.bytes.subarray(0, 10).toString()], [2, 'next row\ny'])
})

describe('unrequested results', () => {
  /** A session whose server gives these answers in sequence. */
  const answering = (...answers: Record<string, string | null>[][]): Session => {
    const asked = [...answers]
    return {
      query: async (_text: string, _values: unknown[], shape: Shape) => {
        const read = readRows(asked.shift() ?? [], shape)
        if (Array.isArray(read)) return read
        throw new ConnectorError('source', `no value fits ${read.wrong}`)
      },
      violation: (reason: string) => new ConnectorError('source', reason),
    } as unknown as Session
  }
  const domain = (oid: number, base: number) => ({
    oid: String(oid),
    name: 'd',
    kind: 'd',
    built_in: 'f',
    element: '0',
    base: String(base),
    base_modifier: '-1',
  })

  it('cause no endless chain of domains', async () => {
    const session = answering([domain(1, 2), domain(2, 1)], [{ name: 'text' }])
    assert.equal((await describeTypes(session, [{ oid: 1, modifier: -1 }])).length, 1)
  })

  it('are refused if columns, rows or values are missing', async () => {
    const reference = [{ oid: 1, modifier: -1 }]
    await assert.rejects(describeTypes(answering([], []), reference), /did not name the type/)
    await assert.rejects(describeTypes(answering([{ ...domain(1, 2), oid: null }]), reference), /fits oid/)
    await assert.rejects(describeTypes(answering([{ name: 'd' }]), reference), /fits oid/)
  })

  it('are read as text, and converted only if they are valid', () => {
    assert.deepEqual(['t', 'f', 'true', '', null].map(readBoolean), [true, false, undefined, undefined, undefined])
    assert.deepEqual(
      ['12', '-9007199254740991', '9007199254740993', '1e3', '0x10', ' 1', '9'.repeat(40_000), null].map(readInteger),
      [12, -9007199254740991, undefined, undefined, undefined, undefined, undefined, undefined],
    )
    assert.deepEqual(['{"a":[1]}', 'null', '{', `${'['.repeat(5000)}${']'.repeat(5000)}`].map(readJson), [
      { a: [1] },
      null,
      undefined,
      undefined,
    ])
    assert.deepEqual(readJson(`"${'[{'.repeat(5000)}\\"["`), `${'[{'.repeat(5000)}"[`)
    assert.deepEqual(['["a","b"]', '["a",1]', '{}'].map(readTexts), [['a', 'b'], undefined, undefined])
    assert.deepEqual(readRows([{ a: null }], { a: orNull(readText) }), [{ a: null }])
    assert.deepEqual(readRows([{ a: '1' }], { toString: readText }), { wrong: 'toString' })
  })
})

it('trimming a query full of blanks takes linear time', async () => {
  let sent = ''
  const session = {
    client: {
      async query({ text }: { text: string }) {
        sent = text
        throw Object.assign(new Error('syntax error'), { code: '42601' })
      },
    },
  } as unknown as Session
  const started = process.cpuUsage()
  await assert.rejects(describeStream(session, 'q', { q: `${' ;\n'.repeat(80_000)}x` }), /must be one SELECT/)
  assert.ok(process.cpuUsage(started).user < 1_000_000)
  await assert.rejects(describeStream(session, 'q', { q: 'SELECT 1 ; \n;' }), /must be one SELECT/)
  assert.match(sent, /^SELECT \* FROM \(\nSELECT 1\n\)/)
})
