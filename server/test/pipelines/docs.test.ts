import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pipelinesPage } from '../../../scripts/pipelines-page.ts'
import { findSettingsFaults } from '../../src/connectors/settings/settings.ts'
import { configFrame } from '../../src/pipelines/config-shape.ts'
import { registerPerson, startApp } from '../harness/app.ts'

const page = pipelinesPage()

test('the page has every field of a config, with its default and an example that the schema takes', () => {
  const { properties } = configFrame as unknown as {
    properties: Record<string, { properties: Record<string, object> }>
  }
  for (const part of ['sync', 'columns', 'run']) {
    const fields = Object.entries(properties[part]!.properties)
    assert.ok(fields.length >= 4)
    for (const [name, schema] of fields) {
      assert.match(page, new RegExp(`^\\| \`${name}\` \\|[^|]+\\| \\S[^|]*\\| \\S[^|]*\\| \\S`, 'm'), `${part}.${name}`)
      const { examples } = schema as { examples: unknown[] }
      assert.deepEqual(findSettingsFaults(configFrame.properties[part as 'sync'], { [name]: examples[0] }, part), [])
    }
  }
})

test('a pipeline can be created from the example of the page', async () => {
  const app = await startApp()
  const as = await registerPerson(app)
  const example = JSON.parse(/```json\n(.*?)```/s.exec(page)![1]!)
  const { user, password, host, database } = example.config.destination.config
  const saved = await app.call('POST', '/api/saved/sources', {
    as,
    body: { name: 'Shop', connector_name: 'postgres', config: { config: { user, password, host, database } } },
  })
  assert.equal(saved.status, 201, saved.text)
  example.config.source.saved_connector_id = saved.body.id
  const made = await app.call('POST', '/api/pipelines', { as, body: example })
  assert.equal(made.status, 201, made.text)
})
