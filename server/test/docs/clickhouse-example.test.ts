/** The example on the page of clickhouse, followed from the page alone: its SQL as the administrator, its pipeline over HTTP. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, it } from 'node:test'
import { findAbsence, startChdbServer, stopChdbServer } from '../harness/chdb-server.ts'
import { startEngine } from '../harness/engine.ts'

const absence = await findAbsence()
if (absence !== null) console.log(`the example on the page of clickhouse is not tested: ${absence}`)

const page = readFileSync(path.resolve(import.meta.dirname, '../../../docs/connectors/clickhouse.md'), 'utf8')
const example = page.slice(page.indexOf('## Example'))
const block = (language: string): string => new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 's').exec(example)![1]!

it('the example on the page of clickhouse works as it is written', { skip: absence !== null }, async () => {
  const server = await startChdbServer()
  after(stopChdbServer)
  const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8' })
  await engine.work()
  for (const statement of block('sql').split(';\n').slice(0, -1)) await server.sql(statement)
  const body = JSON.parse(block('json')) as { config: Record<'source' | 'destination', { config: object }> }
  // Only where the server is differs.
  for (const side of ['source', 'destination'] as const)
    Object.assign(body.config[side].config, { host: server.host, port: server.port })
  const created = await engine.call('POST', '/api/pipelines', { as: engine.person, body })
  assert.equal(created.status, 201, created.text)
  const run = async (): Promise<number> => {
    const id = await engine.trigger(created.body.id)
    const done = await engine.finished(id)
    assert.equal(done.status, 'success', `${done.error}\n${await engine.logs(id)}`)
    return done.records_read
  }
  const orders = () => server.sql('SELECT id, customer, total FROM warehouse.orders FINAL ORDER BY id')
  assert.equal(await run(), 2)
  assert.deepEqual(await orders(), ['1\tAda\t9.99', '2\tGrace\t120'])
  await server.sql("INSERT INTO shop.orders (id, customer, total) VALUES (1, 'Ada', 10)")
  assert.ok((await run()) < 3)
  assert.deepEqual(await orders(), ['1\tAda\t10', '2\tGrace\t120'])
})
