/** What the pipeline editor makes of a config, without a browser: nothing is lost, and secrets stay out of drafts. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseExact, sayValue } from '../../../web/src/api/exact-json.ts'
import {
  columnsOf,
  rowsOf,
  withHash,
  withLater,
  withLoaded,
  withRename,
} from '../../../web/src/pages/editor/columns.ts'
import { findDifferences } from '../../../web/src/pages/editor/difference.ts'
import {
  changedFields,
  type Draft,
  EMPTY_DRAFT,
  readBody,
  toBody,
  withStreams,
} from '../../../web/src/pages/editor/draft.ts'
import { setIn } from '../../../web/src/pages/editor/fields.ts'
import { readCron, saySchedule, toCron } from '../../../web/src/pages/editor/schedule-words.ts'
import {
  doubtfulPaths,
  dropSecrets,
  maskSecrets,
  restoreMasks,
  secretPaths,
} from '../../../web/src/pages/editor/secrets.ts'
import { sayPipeline } from '../../../web/src/pages/editor/summary-words.ts'
import { abilitiesOf, findSyncFault, syncOf, writesFor } from '../../../web/src/pages/editor/sync.ts'
import { sources } from '../../src/connectors/registry.ts'

const MASK = '********'
const draftOf = (config: object, more: Partial<Draft> = {}): Draft => ({
  ...EMPTY_DRAFT,
  name: 'Orders',
  config: config as Draft['config'],
  ...more,
})
const orders = {
  source: { name: 'postgres', stream: 'public.orders', config: { host: 'h', password: MASK, unknown: [1] } },
  destination: { name: 'postgres', config: { table: 'orders', schema: 'raw' } },
  sync: { mode: 'incremental', cursor_field: 'updated_at', primary_key: ['id'] },
  later: { a: null },
}

describe('a draft', () => {
  test('comes back from its JSON as it was, and nothing of it is sent while nothing is changed', () => {
    const draft = draftOf(orders, { schedule: '0 * * * *', timezone: 'Europe/Berlin' })
    assert.deepEqual(readBody(JSON.parse(JSON.stringify(toBody(draft)))), draft)
    assert.deepEqual(changedFields(draft, structuredClone(draft)), {})
    assert.deepEqual(changedFields(draft, { ...draft, timezone: null }), { timezone: null })
  })

  test('with several streams is one config for all of them, without what only one stream has', () => {
    const draft = draftOf({ ...orders, columns: { exclude: ['notes'] } })
    const many = withStreams(draft, ['a', 'b'])
    assert.deepEqual(many.many, { streams: ['a', 'b'] })
    assert.equal('columns' in many.config, false)
    assert.deepEqual(many.config.sync, { mode: 'incremental' })
    assert.deepEqual(readBody(toBody(many)), { ...many, name: '' })
    assert.equal((withStreams(many, ['b']).config.source as { stream: string }).stream, 'b')
  })

  test('of which a field was given and taken back is what it was', () => {
    const config = { source: { name: 'dummy' } }
    const given = setIn(config, ['sync', 'mode'], 'incremental')
    assert.deepEqual(given, { ...config, sync: { mode: 'incremental' } })
    assert.deepEqual(setIn(given, ['sync', 'mode'], undefined), config)
  })

  test('that is not one is refused with a sentence', () => {
    assert.throws(() => readBody([]), /must be an object/)
    assert.throws(() => readBody({ name: 'x', shedule: '' }), /shedule: unknown field; there are name, schedule/)
    assert.throws(() => readBody({ name: 'x', enabled: 'yes' }), /enabled: must be true or false/)
  })
})

describe('columns', () => {
  const described = ['id', 'email', 'notes']

  test('are ticked, renamed and hashed as the config says, and those without a description are shown too', () => {
    const config = { columns: { exclude: ['notes', 'gone'], rename: { email: 'mail' }, hash: ['email'] } }
    assert.deepEqual(rowsOf(columnsOf(config), described), [
      { name: 'id', loaded: true, rename: '', hashed: false },
      { name: 'email', loaded: true, rename: 'mail', hashed: true },
      { name: 'notes', loaded: false, rename: '', hashed: false },
      { name: 'gone', loaded: false, rename: '', hashed: false },
    ])
  })

  test('are named in exclude or in include, by whether later ones are loaded', () => {
    const left = withLoaded({}, ['notes'], false)
    assert.deepEqual(left, { columns: { exclude: ['notes'] } })
    const only = withLater(left, false, described)
    assert.deepEqual(only, { columns: { include: ['id', 'email'] } })
    assert.deepEqual(withLoaded(only, ['notes'], true), { columns: { include: ['id', 'email', 'notes'] } })
    assert.deepEqual(withLater(only, true, described), left)
    assert.deepEqual(withLoaded(left, ['notes'], true), {})
    assert.deepEqual(withHash(withRename({}, 'email', 'mail'), 'email', true), {
      columns: { rename: { email: 'mail' }, hash: ['email'] },
    })
    assert.deepEqual(withRename({ columns: { rename: { email: 'mail' } } }, 'email', 'email'), {})
  })
})

describe('a schedule', () => {
  test('that is a choice is the same cron again, and any other stays cron', () => {
    for (const cron of ['*/15 * * * *', '5 * * * *', '30 6 * * *', '0 6 * * 1-5', '0 6 * * 0', '0 6 31 * *'])
      assert.equal(toCron(readCron(cron)!), cron)
    for (const cron of ['*/7 * * * *', '0 25 * * *', '0 6 * * 1,3', '0 6 1 1 *', '@daily', ''])
      assert.equal(readCron(cron), null)
  })

  test('is said in words', () => {
    assert.equal(saySchedule(null), 'When started by hand')
    assert.equal(saySchedule('0 * * * *'), 'Every hour')
    assert.equal(saySchedule('30 6 * * 1'), 'Every Monday at 06:30')
    assert.equal(saySchedule('0 6 * * 1,3'), 'At the times of “0 6 * * 1,3”')
  })
})

test('a pipeline is said in one sentence', () => {
  const abilities = abilitiesOf(undefined, undefined)
  const draft = draftOf(orders, { schedule: '0 * * * *' })
  const known = { draft, source: 'Shop', destination: 'Warehouse', sync: syncOf(orders, abilities, false) }
  const said = sayPipeline(known).map((word) => (typeof word === 'string' ? word : word.name))
  assert.equal(
    said.join(''),
    'Every hour, take new rows of public.orders of Shop by updated_at and upsert them by id into raw.orders of Warehouse.',
  )
})

describe('secrets', () => {
  const postgres = sources.find(({ name }) => name === 'postgres')!.settings as object
  const schemas = { source: { settings: postgres, authentication: undefined } }
  const python = { properties: { token: { type: 'string' }, days: {} }, additionalProperties: true }

  test('are masked wherever the connector marks one, and come back where the mask is', () => {
    const config = { source: { name: 'postgres', config: { host: 'h', password: 'hunter2' } } }
    const masked = maskSecrets(config, secretPaths(schemas))
    assert.deepEqual(masked, { source: { name: 'postgres', config: { host: 'h', password: MASK } } })
    assert.deepEqual(restoreMasks(masked, config), config)
    assert.deepEqual(restoreMasks(masked, {}), masked)
  })

  test('that were typed are left out of a draft, and a stored one stays stored', () => {
    const typed = { source: { name: 'postgres', config: { host: 'h', password: 'hunter2' } } }
    const paths = doubtfulPaths(schemas)
    assert.deepEqual(dropSecrets(typed, paths, {}), {
      config: { source: { name: 'postgres', config: { host: 'h' } } },
      dropped: true,
    })
    const stored = { source: { name: 'postgres', config: { host: 'old', password: MASK } } }
    assert.deepEqual(dropSecrets(typed, paths, stored).config.source, {
      name: 'postgres',
      config: { host: 'h', password: MASK },
    })
    assert.equal(dropSecrets(stored, paths, stored).dropped, false)
  })

  test('of a Python source may be under any name, so none of its settings is kept', () => {
    const own = { source: { settings: python, authentication: undefined } }
    const typed = { source: { name: 'weather', config: { token: 't', days: 3 } } }
    const { config, dropped } = dropSecrets(typed, doubtfulPaths(own), {})
    assert.deepEqual([config, dropped], [{ source: { name: 'weather' } }, true])
    const kept = dropSecrets(typed, doubtfulPaths(own), typed)
    assert.equal(kept.dropped, false)
    assert.deepEqual(restoreMasks(kept.config, typed), typed)
  })
})

test('a difference names each field, and a list as a whole', () => {
  const before = { name: 'a', config: { sync: { mode: 'incremental', primary_key: ['id'] }, run: {} } }
  const after = { name: 'a', config: { sync: { primary_key: ['id', 'day'] }, columns: { hash: ['x'] }, run: {} } }
  assert.deepEqual(findDifferences(before, after), [
    { path: 'config.sync.mode', before: 'incremental', after: undefined },
    { path: 'config.sync.primary_key', before: ['id'], after: ['id', 'day'] },
    { path: 'config.columns.hash', before: undefined, after: ['x'] },
  ])
})

test('only what source and destination can do is offered', () => {
  const whole = abilitiesOf({ capabilities: { incremental: false } }, { capabilities: { write: ['append'] } })
  assert.deepEqual([syncOf({}, whole, false).write, writesFor('full_refresh', whole)], ['append', ['append']])
  const incremental = syncOf({ sync: { mode: 'incremental' } }, whole, false)
  assert.match(findSyncFault(incremental, whole, false)!, /only be read whole/)
  const all = abilitiesOf({ capabilities: { incremental: true } }, undefined)
  assert.deepEqual(writesFor('incremental', all), ['append', 'upsert'])
  assert.match(findSyncFault(syncOf({ sync: { mode: 'incremental' } }, all, false), all, false)!, /Name the column/)
})

test('a number of a preview keeps its digits', () => {
  const { records } = parseExact('{"records":[{"n":9007199254740993,"m":0.10,"k":[1e400],"s":"1"}]}') as {
    records: Record<string, unknown>[]
  }
  assert.deepEqual(Object.values(records[0]!).map(sayValue), ['9007199254740993', '0.10', '[1e400]', '1'])
})
