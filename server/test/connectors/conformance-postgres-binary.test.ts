import assert from 'node:assert/strict'
import { after } from 'node:test'
import { postgresDestination } from '../../src/connectors/postgres/destination/destination.ts'
import { type BinaryLines, createBinaryLines } from '../harness/binary-lines.ts'
import type { OpenDestinationFixture } from '../harness/conformance.ts'
import { testDestination } from '../harness/destination-suite.ts'
import { startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'
import { destination as openFixture } from './fixtures/postgres.ts'

let lines: BinaryLines

/** The same suite, with rows that come from tables of another PostgreSQL and keep no output. */
const inBinaryForm: OpenDestinationFixture = async (bench) => {
  const fixture = await openFixture(bench)
  const server = await startPostgresServer()
  const client = await server.connect(await server.createDatabase())
  lines = createBinaryLines(client)
  return {
    ...fixture,
    source: lines.source,
    async close() {
      await fixture.close()
      await stopPostgresServer()
    },
  }
}

/** One source for each way that rows take: into the table, into the stage, through a table of our own. */
const crashed = { append: 'can resume', replace: 'cannot resume', upsert: 'rarely has a cursor' } as const

testDestination(postgresDestination, inBinaryForm, {
  crashes: (write, source) => crashed[write] === source,
  // Runs with a quarantine send text.
  quarantine: false,
})

after(() => {
  const { binary, text } = lines.taken
  assert.ok(binary > 20 * text, `${binary} pages were loaded in binary form, ${text} as text`)
})
