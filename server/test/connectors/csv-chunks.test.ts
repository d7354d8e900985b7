import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import fc from 'fast-check'
import { openEngine } from '../../src/connectors/duckdb.ts'
import { type CsvChunk, CsvChunks } from '../../src/connectors/formats/csv-chunks.ts'
import { csvTableSql } from '../../src/connectors/formats/local-table.ts'

async function openFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-csv-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return folder
}

async function* cut(text: string, bytes: number): AsyncGenerator<Buffer> {
  const all = Buffer.from(text)
  for (let at = 0; at < all.length; at += bytes) yield Buffer.from(all.subarray(at, at + bytes))
}

const dialect = { delimiter: ',', quote: '"', escape: '"', newline: '\\n', names: ['a', 'b'] }
const sqlOf = (file: string, header: boolean): string => csvTableSql([file], header, dialect, 65_536)

const cell = fc.oneof(
  fc.constantFrom('', '""', 'x', ' x ', '"a,b"', '"two\nlines"', '"a ""quoted"" word"', '"\n"', '1', 'é'),
  fc.constantFrom('""""', '"",', '5"', ' "x"', '"x" ', 'a"b"c', '"open', '\r'),
)
const row = fc.tuple(fc.oneof({ weight: 6, arbitrary: cell }, { weight: 1, arbitrary: fc.string() }), cell)

describe('a CSV that is divided', () => {
  it('has the same rows as in one piece, wherever DuckDB reads both, and is never cut within a row', async (t) => {
    const folder = await openFolder(t)
    const engine = await openEngine(folder, new AbortController().signal)
    t.after(() => engine.close())
    const read = async (sql: string): Promise<unknown[][] | null> =>
      engine.connection.runAndReadAll(`SELECT * FROM ${sql}`).then(
        (result) => result.getRowsJson() as unknown[][],
        () => null,
      )
    let compared = 0
    let at = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(row, { minLength: 1, maxLength: 12 }),
        fc.integer({ min: 4, max: 60 }),
        async (rows, bytes) => {
          const own = path.join(folder, String(++at))
          await mkdir(own)
          const text = `a,b\n${rows.map((cells) => cells.join(',')).join('\n')}\n`
          const chunks = new CsvChunks(own, cut(text, 7), ',', bytes)
          const parts: unknown[][][] = []
          let divided = true
          try {
            for await (const chunk of chunks.all()) {
              const found = await read(sqlOf(chunk.path, chunk.first))
              if (found === null) divided = false
              else parts.push(found)
            }
          } catch {
            divided = false
          }
          const whole = path.join(own, 'file')
          await chunks.join(whole)
          assert.equal(await readFile(whole, 'utf8'), text)
          const expected = await read(sqlOf(whole, true))
          if (divided && expected !== null) {
            compared += 1
            assert.deepEqual(parts.flat(), expected)
          }
          await rm(own, { recursive: true })
        },
      ),
      { numRuns: 250 },
    )
    assert.ok(compared > 25, String(compared))
  })

  it('whose stream breaks is not taken for a shorter one', async (t) => {
    async function* broken(): AsyncGenerator<Buffer> {
      yield Buffer.from('a,b\n1,2\n3,4\n')
      throw new Error('the connection broke')
    }
    const folder = await openFolder(t)
    const chunks = new CsvChunks(folder, broken(), ',', 8)
    const found: CsvChunk[] = []
    await assert.rejects(async () => {
      for await (const chunk of chunks.all()) found.push(chunk)
    }, /the connection broke/)
    assert.ok(found.length > 0)
    await assert.rejects(chunks.join(path.join(folder, 'file')), /the connection broke/)
  })
})
