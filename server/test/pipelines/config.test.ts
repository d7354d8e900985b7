import assert from 'node:assert/strict'
import { test } from 'node:test'
import { destinations, sources } from '../../src/connectors/registry.ts'
import { sql } from '../../src/database/database.ts'
import { registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const owner = await registerPerson(app, 'Owner')
const stranger = await registerPerson(app, 'Stranger')

const source = { name: 'dummy', stream: 'creatures' }
const destination = { name: 'file', config: {} }
const create = (config: unknown, more: object = {}) =>
  app.call('POST', '/api/pipelines', { as: owner, body: { name: 'P', config, ...more } })
const saved = async (kind: 'sources' | 'destinations', as: typeof owner, body: object) =>
  (await app.call('POST', `/api/saved/${kind}`, { as, body: { name: 'S', ...body } })).body.id as string

const savedSource = await saved('sources', owner, { connector_name: 'dummy', config: { config: { records: 3 } } })
const savedDestination = await saved('destinations', owner, { connector_name: 'file', config: {} })
const foreignSource = await saved('sources', stranger, { connector_name: 'dummy', config: {} })
const foreignDomain = (await app.call('POST', '/api/domains', { as: stranger, body: { name: 'Theirs' } })).body.id

const theirs = await app.call('POST', '/api/pipelines', {
  as: stranger,
  body: { name: 'Theirs', config: { source, destination } },
})
const foreignRun = (await app.call('POST', `/api/pipelines/${theirs.body.id}/run`, { as: stranger })).body.id

const nested = (depth: number): object => (depth === 0 ? {} : { a: nested(depth - 1) })

test('the example of every connector creates a pipeline', async () => {
  for (const { name, example_config } of sources) {
    const made = await create({ source: example_config, destination })
    assert.equal(made.status, 201, `${name}: ${made.text}`)
  }
  for (const { name, example_config } of destinations) {
    const made = await create({ source, destination: example_config })
    assert.equal(made.status, 201, `${name}: ${made.text}`)
  }
})

test('a config is returned as it was given, without defaults', async () => {
  const config = {
    name: 'inner',
    source,
    destination,
    sync: { mode: 'incremental' },
    columns: { exclude: ['x'] },
    run: { max_attempts: 2 },
  }
  const made = await create(config)
  assert.equal(made.status, 201, made.text)
  const read = await app.call('GET', `/api/pipelines/${made.body.id}`, { as: owner })
  assert.deepEqual(read.body.config, config)
})

test('settings that cannot be used together are refused when they are saved', async () => {
  const url = 'https://example.com/a.csv'
  const run_id = foreignRun as string
  const host = 'db.example.com'
  const cases: [string, object, RegExp][] = [
    ['file', {}, /neither `url` nor `run_id` is given; give one of them$/],
    ['file', { url, run_id }, /`url` and `run_id` are both given; give only one of them$/m],
    ['file', { url: 'http://[' }, /`url` is not a valid address$/],
    ['postgres', { user: 'u' }, /`host` is missing: give `url`, or `host`/],
    ['postgres', { host, user: 'u', url: 'postgres://u@db.example.com/d' }, /`host` and `url` are both given/],
  ]
  for (const [name, config, expected] of cases) {
    const made = await create({ source: { name, stream: 'rows', config }, destination })
    assert.equal(made.status, 400, `${name} ${JSON.stringify(config)}: ${made.text}`)
    assert.match(made.body.detail, /^config\.source\.config: The \w+ settings cannot be used: /)
    assert.match(made.body.detail, expected)
    const body = { name: 'S', connector_name: name, config: { config } }
    const kept = await app.call('POST', '/api/saved/sources', { as: owner, body })
    assert.equal(kept.status, 400, kept.text)
    assert.match(kept.body.detail, expected)
    const checked = await app.call('POST', '/api/connectors/check', { as: owner, body: { source: { name, config } } })
    assert.equal(checked.status, 400, checked.text)
  }
  const target = await create({ source, destination: { name: 'postgres', config: { host } } })
  assert.match(target.body.detail, /^config\.destination\.config: .*`user` is missing/)
})

test('overridable settings can be given with a saved connector', async () => {
  const good = await create({
    source: { saved_connector_id: savedSource, stream: 'plants', config: { records: 7 } },
    destination: { saved_connector_id: savedDestination },
  })
  assert.equal(good.status, 201, good.text)
})

test('bad configs are refused with the path of the fault, and nothing is stored', async () => {
  const before = await counted()
  const cases: [unknown, string | RegExp][] = [
    [
      { source: { ...source, stream: 'crea' }, destination },
      "config.source.stream: dummy has no stream 'crea'; it has creatures, plants",
    ],
    [
      { source: { ...source, name: 'dumy' }, destination },
      "config.source.name: there is no source 'dumy'; did you mean 'dummy'?",
    ],
    [
      { source, destination: { name: 'filing' } },
      /^config\.destination\.name: there is no destination 'filing'; use clickhouse, duckdb, file/,
    ],
    [{ source: { ...source, strem: 'x' }, destination }, "config.source.strem: unknown field; did you mean 'stream'?"],
    [{ source: { name: 'dummy' }, destination }, /^config\.source\.stream: is required/],
    [
      { source: { ...source, config: { recrods: 1 } }, destination },
      "config.source.config.recrods: unknown field; did you mean 'records'?",
    ],
    [
      { source: { ...source, config: { records: '10' } }, destination },
      /^config\.source\.config\.records: must be an integer/,
    ],
    [
      { source: { ...source, config: { records: -1 } }, destination },
      /^config\.source\.config\.records: must be 0 or more/,
    ],
    [
      { source: { ...source, authentication: { type: 'bearer', params: {} } }, destination },
      /^config\.source\.authentication\.type: 'bearer' is not supported/,
    ],
    [
      { source: { ...source, authentication: { type: 'api_key', params: { token: 5 } } }, destination },
      /^config\.source\.authentication\.params\.token: must be a string/,
    ],
    [
      { source: { ...source, authentication: 'secret' }, destination },
      /^config\.source\.authentication: must be an object/,
    ],
    [
      { source, destination: { name: 'file', config: { format: 'xml' } } },
      /^config\.destination\.config\.format: 'xml' is not allowed; use 'jsonl'/,
    ],
    [{ source, destination, extra: 1 }, /^config\.extra: unknown field/],
    [{ source, destination, sinc: {} }, "config.sinc: unknown field; did you mean 'sync'?"],
    [{ source }, /^config\.destination: is required/],
    [{ source: [], destination }, /^config\.source: must be an object/],
    [
      { source: { saved_connector_id: foreignSource, stream: 'plants' }, destination },
      'config.source.saved_connector_id: there is no saved source with this id',
    ],
    [
      { source: { saved_connector_id: savedDestination, stream: 'plants' }, destination },
      "config.source.saved_connector_id: 'S' is a saved destination; a saved source is needed here",
    ],
    [
      { source, destination: { saved_connector_id: savedSource } },
      /^config\.destination\.saved_connector_id: 'S' is a saved source/,
    ],
    [
      { source: { saved_connector_id: 'x', stream: 'plants' }, destination },
      /^config\.source\.saved_connector_id: .*UUID/,
    ],
    [
      { source: { saved_connector_id: savedSource, name: 'dummy', stream: 'plants' }, destination },
      /^config\.source: give either name or saved_connector_id/,
    ],
    [
      { source: { saved_connector_id: savedSource, stream: 'crea' }, destination },
      /^config\.source\.stream: dummy has no stream 'crea'/,
    ],
    [
      { source: { saved_connector_id: savedSource, stream: 'plants', authentication: { type: 'none' } }, destination },
      /^config\.source\.authentication: is set by the saved connector/,
    ],
    [{ source, destination, sync: { mode: 'sometimes' } }, /^config\.sync\.mode: 'sometimes' is not allowed/],
    [
      { source, destination, sync: { write: 'upsert', primary_key: ['id'] } },
      'config.sync.write: file cannot upsert; it can append, replace',
    ],
    [
      { source, destination: { name: 'logger' }, sync: { write: 'replace' } },
      /^config\.sync\.write: logger cannot replace/,
    ],
    [
      { source, destination, sync: { mode: 'incremental', write: 'append', lookback_seconds: 60 } },
      /^config\.sync\.lookback_seconds: .*append/,
    ],
    [
      { source, destination, sync: { lookback_seconds: 60 } },
      /^config\.sync\.lookback_seconds: needs mode incremental/,
    ],
    [
      { source, destination, sync: { on_error: 'quarantine' } },
      'config.sync.on_error: file does not refuse single records, so there is nothing to quarantine; use fail',
    ],
    [{ source, destination, sync: { max_error_share: 0.5 } }, /^config\.sync\.max_error_share: needs on_error/],
    [{ source, destination, sync: { max_error_share: 1.5 } }, /^config\.sync\.max_error_share: must be 1 or less/],
    [
      { source, destination, columns: { include: ['a'], exclude: ['a'] } },
      /^config\.columns\.exclude: 'a' is also in include/,
    ],
    [{ source, destination, columns: { rename: { a: 'c', b: 'c' } } }, /^config\.columns\.rename: two columns/],
    [
      { source, destination, columns: { exclude: ['id'] }, sync: { primary_key: ['id'] } },
      /^config\.sync\.primary_key: 'id' is excluded/,
    ],
    [{ source, destination, columns: { hash: 'a' } }, /^config\.columns\.hash: must be an array/],
    [{ source, destination, run: { max_attempts: 0 } }, /^config\.run\.max_attempts: must be 1 or more/],
    [{ source, destination, run: { timeout_minutes: 1.5 } }, /^config\.run\.timeout_minutes: must be an integer/],
    [
      { source, destination, run: { timeout_minutes: 721 } },
      'config.run.timeout_minutes: must be at most 720; an operator can raise RUN_TIMEOUT_MINUTES',
    ],
    [
      { source, destination, run: { isolation: 'pod' } },
      'config.run.isolation: must be shared; an operator can offer pod by setting POD_CLASSES',
    ],
    [
      { source, destination, run: { resources: 'large' } },
      'config.run.resources: needs isolation pod; remove it, or add that',
    ],
    [
      { source, destination, run: { isolation: 'node' } },
      "config.run.isolation: 'node' is not allowed; use 'shared' or 'pod'",
    ],
    [{ source: { ...source, config: { seed: '********' } }, destination }, /^config\.source\.config\.seed: is a mask/],
    [
      { source: { ...source, authentication: { type: 'none', params: nested(40) } }, destination },
      /^config: is nested too deeply/,
    ],
    [{ source, destination, name: 'x'.repeat(300_000) }, /^config: is too large \(\d+ KB\); at most 256 KB/],
    [
      { source: { name: 'file', stream: 'rows', config: { run_id: foreignRun } }, destination },
      'config.source.config.run_id: there is no run with this id',
    ],
    [nested(99), /nested too deep/],
    ['text', /^config: must be an object/],
    [null, /^config: must be an object/],
  ]
  for (const [config, expected] of cases) {
    const answer = await create(config)
    assert.equal(answer.status, 400, `${JSON.stringify(config).slice(0, 200)}: ${answer.text}`)
    if (typeof expected === 'string') assert.equal(answer.body.detail, expected)
    else assert.match(answer.body.detail, expected)
  }
  assert.equal(await counted(), before)
})

test('bad schedules, zones, names and domains are refused, and nothing is stored', async () => {
  const before = await counted()
  const config = { source, destination }
  for (const [more, status, expected] of [
    [{ schedule: '0 0 31 2 *' }, 400, /^schedule: '0 0 31 2 \*' never fires/],
    [{ schedule: '* * * * * *' }, 400, /^schedule: must have five fields/],
    [{ schedule: 5 }, 400, /^schedule: must be a string/],
    [{ timezone: 'Mars/Olympus' }, 400, /^timezone: there is no time zone/],
    [{ enabled: 'yes' }, 400, /^enabled: must be a boolean/],
    [{ name: '   ' }, 400, /^name/],
    [{ name: 'x'.repeat(201) }, 400, /^name/],
    [{ domain_id: 'x' }, 400, /^domain_id: must be a valid UUID/],
    [{ domain_id: foreignDomain }, 404, /Domain not found/],
    [{ domain_id: '00000000-0000-4000-8000-000000000000' }, 404, /Domain not found/],
  ] as const) {
    const answer = await create(config, more)
    assert.equal(answer.status, status, `${JSON.stringify(more)}: ${answer.text}`)
    assert.match(answer.body.detail, expected)
  }
  assert.equal(await counted(), before)
})

test('several faults are reported together', async () => {
  const { body } = await create({
    source: { ...source, stream: 'x' },
    destination: { name: 'file', config: { forma: 1 } },
  })
  assert.equal(body.detail.split('\n').length, 2)
})

const counted = async () =>
  (await app.services.db.first<{ n: number }>(
    sql`SELECT (SELECT count(*) FROM pipelines) + (SELECT count(*) FROM audit_log) AS n`,
  ))!.n

test('a pipeline may ask for a pod of a class that the operator offers, when created, changed or created in bulk', async () => {
  const { config } = app.services
  config.POD_CLASSES = ['small', 'large']
  try {
    const within = await create({ source, destination, run: { isolation: 'pod', resources: 'large' } })
    assert.equal(within.status, 201)
    assert.equal((await create({ source, destination, run: { isolation: 'pod' } })).status, 201)
    const other = { source, destination, run: { isolation: 'pod', resources: 'huge' } }
    const changed = await app.call('PUT', `/api/pipelines/${within.body.id}`, { as: owner, body: { config: other } })
    assert.equal(changed.status, 400)
    assert.equal(
      changed.body.detail,
      'config.run.resources: must be one of small, large; an operator can add one to POD_CLASSES',
    )
    const { stream: _, ...streamless } = source
    const bulk = { streams: ['creatures'], config: { ...other, source: streamless } }
    assert.equal((await app.call('POST', '/api/pipelines/bulk', { as: owner, body: bulk })).status, 400)
  } finally {
    config.POD_CLASSES = []
  }
})

test("a pipeline may set a time limit up to the operator's RUN_TIMEOUT_MINUTES, when created, changed or created in bulk", async () => {
  const { RUN_TIMEOUT_MINUTES: most } = app.services.config
  const within = await create({ source, destination, run: { timeout_minutes: most } })
  assert.equal(within.status, 201)
  const over = { source, destination, run: { timeout_minutes: most + 1 } }
  const changed = await app.call('PUT', `/api/pipelines/${within.body.id}`, { as: owner, body: { config: over } })
  assert.equal(changed.status, 400)
  const { stream: _, ...streamless } = source
  const bulk = { streams: ['creatures'], config: { ...over, source: streamless } }
  assert.equal((await app.call('POST', '/api/pipelines/bulk', { as: owner, body: bulk })).status, 400)
})
