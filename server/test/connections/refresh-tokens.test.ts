/** Where rotated refresh tokens are stored, and that no token is lost. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { beforeEach, describe, test } from 'node:test'
import {
  createRefreshTokens,
  forgetEndedLeases,
  storeRotatedToken,
  type TokenPlace,
} from '../../src/connections/refresh-tokens.ts'
import { forgetOldTokens } from '../../src/connections/superseded-tokens.ts'
import type { Authentication } from '../../src/connectors/contract.ts'
import { sql } from '../../src/database/database.ts'
import { type Person, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const { db, box } = app.services
let person: Person
beforeEach(async () => {
  person = await registerPerson(app, 'Owner')
})

const credential = (refresh_token: string, more: Record<string, string> = {}): Authentication => ({
  type: 'oauth2_refresh_token',
  params: { token_url: 'https://id.example/token', client_id: 'client', refresh_token, ...more },
})

async function save(token: string): Promise<TokenPlace> {
  const config = { authentication: credential(token), config: { url: 'https://files.example/a.jsonl' } }
  const body = { name: 'shared', connector_name: 'file', config }
  const answer = await app.call('POST', '/api/saved/sources', { as: person, body })
  assert.equal(answer.status, 201, answer.text)
  return placeOf({ table: 'saved_connectors', id: answer.body.id })
}

async function createPipeline(token: string): Promise<TokenPlace> {
  const source = {
    name: 'file',
    stream: 'rows',
    authentication: credential(token),
    config: { url: 'https://f.example/' },
  }
  const config = { source, destination: { name: 'file', config: {} } }
  const answer = await app.call('POST', '/api/pipelines', { as: person, body: { name: 'inline', config } })
  assert.equal(answer.status, 201, answer.text)
  return placeOf({ table: 'pipelines', id: answer.body.id })
}

const placeOf = (origin: TokenPlace['origin']): TokenPlace => ({
  organization_id: person.organization_id,
  origin,
  name: 'file',
  authentication: credential('whatever'),
  config: {},
})

const pathOf = ({ origin }: TokenPlace): string =>
  origin.table === 'pipelines' ? `/api/pipelines/${origin.id}` : `/api/saved/sources/${origin.id}`

async function stored(place: TokenPlace): Promise<string> {
  const { config } = (await app.call('GET', pathOf(place), { as: person })).body
  return (config.source ?? config).authentication.params.refresh_token
}

const store = (place: TokenPlace, used: string, rotated: string): Promise<string> =>
  db.transaction((tx) => storeRotatedToken(tx, box, place, { used, rotated }))

const leases = (place: TokenPlace) =>
  db.query(sql`SELECT 1 FROM refresh_leases WHERE credential_id = ${place.origin.id}`)

for (const [name, make] of [
  ['a saved connector', save],
  ['a pipeline', createPipeline],
] as const)
  describe(`the token of ${name}`, () => {
    test('is replaced where it is stored, encrypted, with nothing else changed', async () => {
      const place = await make('r0')
      const before = (await app.call('GET', `/api/pipelines`, { as: person })).text
      assert.equal(await store(place, 'r0', 'r1'), 'r1')
      assert.equal(await stored(place), 'r1')
      assert.equal((await app.call('GET', `/api/pipelines`, { as: person })).text, before)
      const table = place.origin.table === 'pipelines' ? sql`pipelines` : sql`saved_connectors`
      const row = await db.first<{ config_box: Buffer; updated_at: string | null }>(
        sql`SELECT config_box, updated_at FROM ${table} WHERE id = ${place.origin.id}`,
      )
      assert.ok(!row!.config_box.includes('r1'))
      assert.equal(row!.updated_at, null)
    })

    test('is never overwritten if the user saved another one meanwhile', async () => {
      const place = await make('given by the user')
      assert.equal(await store(place, 'r0', 'r1'), 'given by the user')
      assert.equal(await stored(place), 'given by the user')
    })

    test('does not come back, once superseded, with a config that was read before', async () => {
      const place = await make('r0')
      const path = pathOf(place)
      const { config } = (await app.call('GET', path, { as: person })).body
      await store(place, 'r0', 'r1')
      await store(place, 'r1', 'r2')
      const put = async (token: string) => {
        const authentication = (config.source ?? config).authentication
        authentication.params.refresh_token = token
        authentication.params.scope = `with ${token}`
        assert.equal((await app.call('PUT', path, { as: person, body: { config } })).status, 200)
        const now = (await app.call('GET', path, { as: person })).body.config
        assert.equal((now.source ?? now).authentication.params.scope, `with ${token}`)
        return stored(place)
      }
      assert.deepEqual([await put('r0'), await put('r1')], ['r2', 'r2'])
      // A token that was never stored is one that the user wants.
      assert.equal(await put('new'), 'new')
      const row = await db.first<{ count: number }>(
        sql`SELECT count(*) AS count FROM superseded_tokens WHERE credential_id = ${place.origin.id}`,
      )
      assert.equal(row!.count, 2)
    })

    test('does not follow a superseded one to another address', async () => {
      const place = await make('r0')
      const path = pathOf(place)
      const { config } = (await app.call('GET', path, { as: person })).body
      await store(place, 'r0', 'r1')
      ;(config.source ?? config).config.url = 'https://attacker.example/a.jsonl'
      const answer = await app.call('PUT', path, { as: person, body: { config } })
      assert.equal(answer.status, 409, answer.text)
      assert.match(answer.body.detail, /replaced by the provider since you read it.*authorize again/)
      assert.equal(await stored(place), 'r1')
      // With the stored token, or a new one, the address may change.
      ;(config.source ?? config).authentication.params.refresh_token = 'new'
      assert.equal((await app.call('PUT', path, { as: person, body: { config } })).status, 200)
      assert.equal(await stored(place), 'new')
    })

    test('is left alone if it now belongs to another client, provider or type', async () => {
      const place = await make('r0')
      for (const authentication of [
        credential('r0', { client_id: 'another' }),
        credential('r0', { token_url: 'https://other.example/token' }),
        { type: 'bearer', params: { token: 'r0' } },
      ]) {
        assert.equal(await store({ ...place, authentication }, 'r0', 'r1'), 'r1')
        assert.equal(await stored(place), 'r0')
      }
    })

    test('is left alone by another organization', async () => {
      const place = await make('r0')
      const stranger = await registerPerson(app, 'Stranger')
      const foreign = { ...place, organization_id: stranger.organization_id }
      assert.equal(await store(foreign, 'r0', 'r1'), 'r1')
      const tokens = createRefreshTokens(db, box, foreign)
      assert.equal(await tokens.begin('held'), 'held')
      await tokens.close()
      assert.equal(await stored(place), 'r0')
    })

    test('may have been deleted', async () => {
      const place = await make('r0')
      const gone = { ...place, origin: { ...place.origin, id: randomUUID() } }
      const tokens = createRefreshTokens(db, box, gone)
      assert.equal(await tokens.begin('held'), 'held')
      assert.equal(await tokens.end('held', 'r1'), 'r1')
      assert.deepEqual(await leases(gone), [])
    })

    test('is used by one process at a time, and a waiting one gets the new one', async () => {
      const place = await make('r0')
      const first = createRefreshTokens(db, box, place)
      const second = createRefreshTokens(db, box, place)
      assert.equal(await first.begin('r0'), 'r0')
      const waiting = second.begin('r0')
      const early = await Promise.race([waiting, new Promise((resolve) => setTimeout(resolve, 300, 'waits'))])
      assert.equal(early, 'waits')
      assert.equal(await first.end('r0', 'r1'), 'r1')
      assert.equal(await waiting, 'r1')
      assert.equal(await second.end('r1', 'r2'), 'r2')
      assert.equal(await stored(place), 'r2')
      assert.deepEqual(await leases(place), [])
    })
  })

const MANIFEST = {
  version: '6.0.0',
  type: 'DeclarativeSource',
  check: { type: 'CheckStream', stream_names: ['rows'] },
  streams: [
    {
      type: 'DeclarativeStream',
      name: 'rows',
      schema_loader: { type: 'InlineSchemaLoader', schema: { type: 'object', properties: {} } },
      retriever: {
        requester: { type: 'HttpRequester', url_base: "https://{{ config['host'] }}", path: 'rows' },
        record_selector: { extractor: { type: 'DpathExtractor', field_path: [] } },
      },
    },
  ],
}

describe('a token that is a setting', () => {
  const path = ['settings', 'credentials', 'refresh_token']
  const manifest = (url_base: string): string => JSON.stringify({ ...MANIFEST, definitions: { url_base } })
  const settingsOf = (refresh_token: string, more: object = {}, credentials: object = {}) => ({
    manifest: manifest('https://api.example'),
    settings: { host: 'api.example', credentials: { client_id: 'client', refresh_token, ...credentials }, ...more },
  })
  type Settings = ReturnType<typeof settingsOf>

  async function create(config: Settings): Promise<TokenPlace> {
    const source = { name: 'manifest', stream: 'rows', config }
    const body = { name: 'settings', config: { source, destination: { name: 'file', config: {} } } }
    const answer = await app.call('POST', '/api/pipelines', { as: person, body })
    assert.equal(answer.status, 201, answer.text)
    const origin = { table: 'pipelines' as const, id: String(answer.body.id) }
    return { ...placeOf(origin), name: 'manifest', authentication: { type: 'none', params: {} }, config }
  }
  const rotate = (place: TokenPlace, used: string, rotated: string) => {
    const also = [
      { path: ['settings', 'credentials', 'access_token'], value: `access ${rotated}` },
      { path: ['settings', 'credentials', 'token_expiry_date'], value: '2040-01-01T00:00:00Z' },
    ]
    return db.transaction((tx) => storeRotatedToken(tx, box, place, { used, rotated, kept: { path, also } }))
  }
  async function put(place: TokenPlace, config: Settings) {
    const source = { name: 'manifest', stream: 'rows', config }
    const body = { config: { source, destination: { name: 'file', config: {} } } }
    return app.call('PUT', pathOf(place), { as: person, body })
  }
  const now = async (place: TokenPlace) =>
    (await app.call('GET', pathOf(place), { as: person })).body.config.source.config.settings

  test('is kept when a config that was read before is saved unchanged', async () => {
    const place = await create(settingsOf('r0'))
    await rotate(place, 'r0', 'r1')
    assert.equal((await put(place, settingsOf('r0'))).status, 200)
    assert.equal((await now(place)).credentials.refresh_token, 'r1')
  })

  for (const [what, changed] of [
    ['another manifest', { ...settingsOf('r0'), manifest: manifest('https://attacker.example') }],
    ['another host', settingsOf('r0', { host: 'attacker.example' })],
    ['another setting', settingsOf('r0', { region: 'eu' })],
    ['another client', settingsOf('r0', {}, { client_id: 'other' })],
    ['a setting beside it that only begins like a token', settingsOf('r0', {}, { token_host: 'attacker.example' })],
    ['a whole part where a token was', settingsOf('r0', {}, { access_token: { host: 'attacker.example' } })],
  ] as const)
    test(`does not follow a superseded one to ${what}`, async () => {
      const place = await create(settingsOf('r0'))
      await rotate(place, 'r0', 'r1')
      const answer = await put(place, changed as Settings)
      assert.equal(answer.status, 409, answer.text)
      assert.equal((await now(place)).credentials.refresh_token, 'r1')
      // Nor does a run that was triggered with these settings get it; the old one would revoke the grant.
      const tokens = createRefreshTokens(db, box, { ...place, config: changed })
      await assert.rejects(tokens.begin('r0', path), /trigger the pipeline again/)
      assert.equal(await tokens.begin('another', path), 'another')
      await tokens.close()
    })

  test('is not put where another setting holds a superseded one', async () => {
    const place = await create(settingsOf('r0'))
    await rotate(place, 'r0', 'r1')
    const moved = settingsOf('r1', { host: 'r0' })
    assert.equal((await put(place, moved)).status, 200)
    assert.deepEqual((await now(place)).host, 'r0')
  })

  test('is given to a run of the same source only, whatever tokens have come with it since', async () => {
    const place = await create(settingsOf('r0'))
    await rotate(place, 'r0', 'r1')
    const begin = async (more: Partial<TokenPlace>) => {
      const tokens = createRefreshTokens(db, box, { ...place, ...more })
      const token = await tokens.begin('held', path)
      await tokens.close()
      return token
    }
    assert.equal(await begin({}), 'r1')
    assert.equal(await begin({ name: 'rotating_manifest' }), 'held')
    assert.equal(await begin({ config: settingsOf('r0', { host: 'attacker.example' }) }), 'held')
    const overridden = { config: { ...settingsOf('r0'), limit: 5 } }
    assert.equal(await begin(overridden), 'held')
    assert.equal(await begin({ ...overridden, overrides: { limit: 5 } }), 'r1')
  })
})

test('of the superseded tokens of one credential, the first and the latest are remembered', async () => {
  const place = await save('r0')
  await db.execute(sql`
    INSERT INTO superseded_tokens (credential_id, token_hash, organization_id, superseded_at)
    SELECT ${place.origin.id}, int4send(n), ${place.organization_id}, now() - make_interval(mins => 5000 - n) FROM generate_series(1, 1500) AS n`)
  await store(place, 'r0', 'r1')
  const kept = await db.query<{ token_hash: Buffer }>(
    sql`SELECT token_hash FROM superseded_tokens WHERE credential_id = ${place.origin.id} ORDER BY superseded_at`,
  )
  const numbers = kept.slice(0, -1).map(({ token_hash }) => token_hash.readInt32BE())
  assert.deepEqual([kept.length, numbers[0], numbers[99], numbers[100]], [1000, 1, 100, 602])
  await db.execute(sql`UPDATE superseded_tokens SET superseded_at = now() - interval '2 years'`)
  await forgetOldTokens(db)
  assert.deepEqual(await db.query(sql`SELECT 1 FROM superseded_tokens`), [])
})

describe('the lease', () => {
  test('is free again after an exchange without rotation, and when its holder closes', async () => {
    const place = await save('r0')
    const first = createRefreshTokens(db, box, place)
    await first.begin('r0')
    assert.equal(await first.end('r0', null), 'r0')
    assert.deepEqual(await leases(place), [])
    await first.begin('r0')
    await first.close()
    assert.deepEqual(await leases(place), [])
  })

  test('is not taken by a process that stopped waiting', async () => {
    const place = await save('r0')
    const first = createRefreshTokens(db, box, place)
    const second = createRefreshTokens(db, box, place)
    await first.begin('r0')
    const waiting = assert.rejects(second.begin('r0'))
    await second.close()
    await waiting
    await first.end('r0', null)
    await new Promise((resolve) => setTimeout(resolve, 300))
    assert.deepEqual(await leases(place), [])
  })

  test('of a dead holder expires, and is cleaned up', async () => {
    const place = await save('r0')
    const dead = createRefreshTokens(db, box, place)
    await dead.begin('r0')
    const ago = (time: string) =>
      db.execute(
        sql`UPDATE refresh_leases SET lease_until = now() - ${time}::interval WHERE credential_id = ${place.origin.id}`,
      )
    await ago('1 second')
    const next = createRefreshTokens(db, box, place)
    assert.equal(await next.begin('r0'), 'r0')
    assert.equal(await next.end('r0', 'r1'), 'r1')
    // A holder that was presumed dead comes back too late: the stored token wins, and is the one it uses.
    assert.equal(await dead.end('r0', 'late'), 'r1')
    assert.equal(await stored(place), 'r1')
    await dead.begin('r0')
    await ago('2 hours')
    await forgetEndedLeases(db)
    assert.deepEqual(await leases(place), [])
  })

  test('can be released twice, as after a lost answer of the database', async () => {
    const place = await save('r0')
    const tokens = createRefreshTokens(db, box, place)
    await tokens.begin('r0')
    assert.equal(await tokens.end('r0', 'r1'), 'r1')
    assert.equal(await tokens.end('r0', 'r1'), 'r1')
    assert.equal(await stored(place), 'r1')
  })
})
