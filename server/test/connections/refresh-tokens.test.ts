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
  authentication: credential('whatever'),
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
