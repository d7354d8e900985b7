/** The settings that a custom source requires are known from its validation, and asked for when a config is saved. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const as = await registerPerson(app, 'Author')

const code = (config: string) => `
from svc.source.base import AbstractSource
from svc.source.models import SourceConfig, SourceRecord


${config}


class Shop(AbstractSource):
    def get_streams(self) -> list:
        return ['orders', 'customers']

    def check_connection(self) -> bool:
        return True

    def get_records(self, stream: str):
        yield SourceRecord(id='1', data={})
`
const STRICT = 'class Settings(SourceConfig):\n    subdomain: str\n    pages: int = 10\n    token: str'

const createSource = async (source_name: string, config: string) => {
  const body = { name: 'Shop', source_name, code: code(config) }
  const made = await app.call('POST', '/api/custom-sources', { as, body })
  assert.equal(made.status, 201, made.text)
  return made.body
}
const save = (source: object) =>
  app.call('POST', '/api/pipelines', { as, body: { name: 'P', config: { source, destination: { name: 'file' } } } })

const { id: strictId } = await createSource('strict', STRICT)

test('a pipeline without a required setting is refused with a sentence for each, and so is a saved source', async () => {
  const detail = (path: string) => `${path}.subdomain: is required: str\n${path}.token: is required: str`
  for (const source of [{}, { config: {} }, { config: { pages: 3 } }]) {
    const refused = await save({ name: 'strict', stream: 'orders', ...source })
    assert.deepEqual([refused.status, refused.body], [400, { detail: detail('config.source.config') }])
  }
  const half = await save({ name: 'strict', stream: 'orders', config: { subdomain: 'acme' } })
  assert.equal(half.body.detail, 'config.source.config.token: is required: str')
  const body = { name: 'S', connector_name: 'strict', config: {} }
  const saved = await app.call('POST', '/api/saved/sources', { as, body })
  assert.deepEqual([saved.status, saved.body], [400, { detail: detail('config.config') }])
})

const TYPED = `from datetime import date
from typing import Literal, Optional


class Settings(SourceConfig):
    subdomain: str
    since: date
    mode: Literal["fast", "exact"]
    limit: Optional[int]
    pages: int = 10
    ratio: float = 0.5
    regions: list[str] = []
    extra: dict = {}
    flag: bool | None = None
    own: "Whatever" = None`
const typed = { subdomain: 'acme', since: '2024-01-31', mode: 'fast', limit: null }

test('a setting of the wrong type is refused when it is saved, as a run would refuse it', async () => {
  await createSource('typed', TYPED)
  const wrong: [Record<string, unknown>, string][] = [
    [{ pages: '10' }, 'pages: must be an integer, not a string'],
    [{ pages: 1.5 }, 'pages: must be an integer, not 1.5'],
    [{ pages: true }, 'pages: must be an integer, not true'],
    [{ subdomain: 7 }, 'subdomain: must be a string, not 7'],
    [{ since: 20240131 }, 'since: must be a string, not 20240131'],
    [{ mode: 'slow' }, "mode: 'slow' is not allowed; use 'fast' or 'exact'"],
    [{ limit: 'many' }, 'limit: must be an integer or null, not a string: Optional[int]'],
    [{ ratio: '1' }, 'ratio: must be a number, not a string'],
    [{ regions: 'eu' }, 'regions: must be an array, not a string'],
    [{ extra: [] }, 'extra: must be an object, not an array'],
    [{ flag: 'yes' }, 'flag: must be true or false or null, not a string: bool | None'],
  ]
  for (const [settings, sentence] of wrong) {
    const refused = await save({ name: 'typed', stream: 'orders', config: { ...typed, ...settings } })
    assert.deepEqual([refused.status, refused.body.detail], [400, `config.source.config.${sentence}`])
  }
  const saved = await app.call('POST', '/api/saved/sources', {
    as,
    body: { name: 'S', connector_name: 'typed', config: { config: { ...typed, pages: 'x' } } },
  })
  assert.equal(saved.body.detail, 'config.config.pages: must be an integer, not a string')
})

test('a setting of the right type, or of a type that only Python knows, is saved', async () => {
  const right = [
    {},
    { limit: 5, pages: 3, ratio: 1, regions: ['eu'], extra: { a: 1 }, flag: true, own: [7], more: 'x' },
  ]
  for (const settings of right) {
    const made = await save({ name: 'typed', stream: 'orders', config: { ...typed, ...settings } })
    assert.equal(made.status, 201, made.text)
  }
  const { body } = await app.call('GET', '/api/connectors/sources', { as })
  const { example_config } = body.find((each: { name: string }) => each.name === 'typed')
  assert.equal((await save(example_config)).status, 201, JSON.stringify(example_config))
})

test('with its settings, and with more of them, it is saved; through a saved source too', async () => {
  const config = { subdomain: 'acme', token: 't', other: { of: 'its own' } }
  const made = await save({ name: 'strict', stream: 'orders', config })
  assert.equal(made.status, 201, made.text)
  const body = { name: 'S', connector_name: 'strict', config: { config } }
  const saved = await app.call('POST', '/api/saved/sources', { as, body })
  assert.equal(saved.status, 201, saved.text)
  const reference = { saved_connector_id: saved.body.id, stream: 'orders' }
  assert.equal((await save(reference)).status, 201)
  const beside = await save({ ...reference, config: { subdomain: 'evil' } })
  assert.match(beside.body.detail, /^config\.source\.config\.subdomain: is set by the saved connector/)
})

test('a change of a pipeline is checked by the same rule', async () => {
  const { body } = await save({ name: 'strict', stream: 'orders', config: { subdomain: 'a', token: 't' } })
  const config = { source: { name: 'strict', stream: 'orders' }, destination: { name: 'file' } }
  const put = await app.call('PUT', `/api/pipelines/${body.id}`, { as, body: { config } })
  assert.equal(put.status, 400, put.text)
  const renamed = await app.call('PUT', `/api/pipelines/${body.id}`, { as, body: { name: 'Still there' } })
  assert.equal(renamed.status, 200, renamed.text)
})

test('an unknown stream is refused with the one that was meant', async () => {
  const config = { subdomain: 'a', token: 't' }
  const near = await save({ name: 'strict', stream: 'order', config })
  assert.equal(near.body.detail, "config.source.stream: strict has no stream 'order'; did you mean 'orders'?")
  const far = await save({ name: 'strict', stream: 'payments', config })
  assert.match(far.body.detail, /it has orders, customers$/)
})

test('a source of a thousand streams names a few of them', async () => {
  const streams = JSON.stringify(Array.from({ length: 1000 }, (_, n) => `${'long'.repeat(100)}${n}`))
  const { id } = await createSource('wide', '')
  await app.services.db.execute(
    sql`UPDATE custom_source_versions SET streams = ${streams}::jsonb WHERE custom_source_id = ${id}`,
  )
  const refused = await save({ name: 'wide', stream: 'other' })
  assert.match(refused.body.detail, / and 990 more$/)
  assert.ok(refused.text.length < 6000, String(refused.text.length))
})

test('settings that a run would not require are not required here', async () => {
  await createSource('by_name', 'class ShopConfig:\n    subdomain: str')
  assert.equal((await save({ name: 'by_name', stream: 'orders' })).status, 201)
  const own = 'class Settings(SourceConfig):\n    url: str\n\n    def __init__(self, url="x"):\n        self.url = url'
  await createSource('own_init', own)
  assert.equal((await save({ name: 'own_init', stream: 'orders' })).status, 201)
})

test('a version saved by an earlier release has no such information, and is accepted as before', async () => {
  await createSource('earlier', STRICT)
  await app.services.db.execute(
    sql`UPDATE custom_source_versions SET config_schema = config_schema - 'enforced' WHERE custom_source_id = (SELECT id FROM custom_sources WHERE source_name = 'earlier')`,
  )
  assert.equal((await save({ name: 'earlier', stream: 'orders' })).status, 201)
})

test('the example of a source has a value for each required setting, so that it can be saved', async () => {
  const { body } = await app.call('GET', '/api/connectors/sources', { as })
  const { example_config } = body.find((each: { name: string }) => each.name === 'strict')
  assert.deepEqual(example_config.config, { subdomain: 'text', token: 'text' })
  assert.equal((await save(example_config)).status, 201)
})

test('validation and the list of sources have the schema of the settings, for forms', async () => {
  const settings = `from datetime import date
from typing import Literal, Optional


class ShopConfig(SourceConfig):
    size: int
    since: Optional[date] = None
    kind: Literal["a", "b"] = "a"`
  const { body } = await app.call('POST', '/api/custom-sources/validate', { as, body: { code: code(settings) } })
  const { properties, required } = body.settings_schema
  assert.deepEqual(required, ['size'])
  assert.deepEqual(properties.size, { type: 'integer' })
  assert.deepEqual(properties.since.examples, ['2024-01-31'])
  assert.deepEqual(
    properties.since.anyOf.map(({ type }: { type: string }) => type),
    ['string', 'null'],
  )
  assert.deepEqual(
    properties.kind.anyOf.map((each: { const: string }) => each.const),
    ['a', 'b'],
  )
  await createSource('with_form', settings)
  const listed = await app.call('GET', '/api/connectors/sources', { as })
  const { config_schema } = listed.body.find(({ name }: { name: string }) => name === 'with_form')
  assert.deepEqual(config_schema, body.settings_schema)
  const broken = await app.call('POST', '/api/custom-sources/validate', { as, body: { code: 'import os' } })
  assert.equal(broken.body.settings_schema, null)
})

test('what is stored for this is not shown with the source', async () => {
  const { body } = await app.call('POST', '/api/custom-sources/validate', { as, body: { code: code(STRICT) } })
  assert.deepEqual(Object.keys(body.extracted_schema), [
    'config_class_name',
    'config_fields',
    'auth_class_name',
    'auth_type',
  ])
  assert.equal('settings_enforced' in body, false)
  const read = await app.call('GET', `/api/custom-sources/${strictId}`, { as })
  assert.equal(read.text.includes('enforced'), false)
})
