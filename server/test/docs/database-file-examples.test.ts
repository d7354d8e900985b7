/** The examples on the pages of sqlite and duckdb, followed from the page alone: pipelines over HTTP, SQL on the download. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, it } from 'node:test'
import { queryDuckdb } from '../harness/duckdb-files.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
await engine.work()
const folder = await mkdtemp(path.join(tmpdir(), 'sluice-example-'))
after(() => rm(folder, { recursive: true }))

const systems = {
  sqlite: {
    read: 1000,
    async query(file: string, sql: string): Promise<unknown[]> {
      const db = new DatabaseSync(file)
      const row = Object.values(db.prepare(sql).get()!)
      db.close()
      return row
    },
  },
  duckdb: { read: 100, query: async (file: string, sql: string) => (await queryDuckdb(file, sql))[0]!.map(Number) },
}

async function run(pipeline: string): Promise<string> {
  const id = await engine.trigger(pipeline)
  const { status, error } = await engine.finished(id)
  assert.equal(status, 'success', `${error}\n${await engine.logs(id)}`)
  return id
}

for (const [name, { read, query }] of Object.entries(systems)) {
  it(`the example on the page of ${name} works as it is written`, async () => {
    const page = await readFile(path.resolve(import.meta.dirname, `../../../docs/connectors/${name}.md`), 'utf8')
    const example = page.slice(page.indexOf('## Example'))
    const [first, sql, second] = [...example.matchAll(/```(?:json|sql)\n(.*?)```/gs)].map(([, code]) => code!)
    const created = await engine.call('POST', '/api/pipelines', { as: engine.person, body: JSON.parse(first!) })
    assert.equal(created.status, 201, created.text)
    await run(created.body.id)
    const last = await run(created.body.id)
    const headers = { authorization: `Bearer ${engine.person.access_token}` }
    const answer = await engine.app.inject({ url: `/api/pipelines/runs/${last}/output`, headers })
    const file = path.join(folder, `creatures.${name}`)
    await writeFile(file, answer.rawPayload)
    assert.deepEqual(await query(file, sql!), [1000, 1000])
    const source = JSON.parse(second!)
    source.config.run_id = last
    const reading = await run(await engine.createPipeline({ source }))
    assert.equal((await engine.run(reading)).records_read, read)
  })
}
