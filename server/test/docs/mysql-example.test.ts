/** The example on the page of mysql, followed from the page alone: its SQL as the administrator, its pipeline over HTTP. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, it } from 'node:test'
import { startEngine } from '../harness/engine.ts'
import { findAbsence, startMariadbServer, stopMariadbServer } from '../harness/mariadb-server.ts'

const absence = findAbsence()
if (absence !== null) console.log(`the example on the page of mysql is not tested: ${absence}`)

const page = readFileSync(path.resolve(import.meta.dirname, '../../../docs/connectors/mysql.md'), 'utf8')
const example = page.slice(page.indexOf('## Example'))
const block = (language: string): string => new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 's').exec(example)![1]!

it('the example on the page of mysql works as it is written', { skip: absence !== null }, async () => {
  const server = await startMariadbServer()
  after(stopMariadbServer)
  const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8' })
  await engine.work()
  await server.sql(block('sql'))
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
  assert.equal(await run(), 2)
  assert.deepEqual(await server.sql('SELECT id, customer, total FROM warehouse.orders ORDER BY id'), [
    '1\tAda\t9.99',
    '2\tGrace\t120.00',
  ])
  await server.sql('UPDATE shop.orders SET total = 10 WHERE id = 1')
  assert.ok((await run()) < 3)
  assert.deepEqual(await server.sql('SELECT id, total FROM warehouse.orders ORDER BY id'), ['1\t10.00', '2\t120.00'])
})
