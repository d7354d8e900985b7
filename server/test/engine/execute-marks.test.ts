/** The engine against a destination that keeps its own mark, with the suite that every such destination must pass. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { DestinationFixture } from '../harness/conformance.ts'
import { testDestination } from '../harness/destination-suite.ts'
import { readRows, sqliteDestination } from '../harness/sqlite-destination.ts'

testDestination(sqliteDestination, async (bench): Promise<DestinationFixture> => {
  const target = async () => ({ config: { file: join(bench.folder, '.tmp', `${randomUUID()}.sqlite`), table: 'rows' } })
  return {
    secrets: [],
    schemaless: true,
    good: target,
    target,
    read: async ({ config }) => readRows(String(config.file)),
    refusing: { 'what is shown': target },
    async close() {},
  }
})
