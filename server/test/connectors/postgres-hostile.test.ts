/** A server that lies: what it may say must neither reach another database as SQL nor keep us busy for ever. */
import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { describe, it } from 'node:test'
import { createPageQueue } from '../../src/connectors/postgres/destination/page-queue.ts'
import type { Session } from '../../src/connectors/postgres/shared/session.ts'
import { isTypeName, keptType } from '../../src/connectors/postgres/shared/type-names.ts'
import { copyOut } from '../../src/connectors/postgres/source/copy-out.ts'
import { describeStream } from '../../src/connectors/postgres/source/relation.ts'

describe('types that a source declares', () => {
  const declare = (type: string) =>
    createPageQueue({
      encoding: 'tsv',
      declared: [{ name: 'a', type: 'text', native: { system: 'postgres', type } }],
      existing: null,
      contract: 'evolve',
    })

  it('are refused where they are no type, for they become part of a statement in the destination', () => {
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

  it('are taken in every form in which PostgreSQL writes them', () => {
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

  it('kept from another database become text where only that one knew them', () => {
    const native = (type: string) => ({ name: 'a', type: 'text', native: { system: 'postgres', type } }) as const
    assert.equal(keptType({ name: 'a', type: 'int64' }), 'int8')
    assert.equal(keptType(native('int4range')), 'int4range')
    assert.equal(keptType(native('mood); DROP TABLE people; --')), 'text')
  })
})

it('a message with an impossible length ends the reading', { timeout: 10_000 }, async () => {
  for (const length of [0, 3, 0x80000000, 0xffffffff]) {
    const stream = new PassThrough()
    stream.on('data', () => {})
    const session = {
      client: { query: (copy: { submit(wire: object): void }) => copy.submit({ query() {}, stream }) },
    } as unknown as Session
    const rows = copyOut(session, 'COPY people TO STDOUT')
    const next = rows.next()
    const message = Buffer.from('d\0\0\0\0 some bytes that follow it')
    message.writeUInt32BE(length, 1)
    stream.write(message)
    await assert.rejects(next, /impossible length/)
    assert.ok(stream.destroyed)
  }
})

it('a query that is nothing but blanks to its end is looked at once', async () => {
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
