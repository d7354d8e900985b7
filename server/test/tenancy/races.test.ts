/**
 * Requests that meet. Each round holds a lock that all of them need, waits until PostgreSQL says that they stand in the
 * queue, and lets go: they really run at the same time, and over the rounds in both orders.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { type Statement, sql } from '../../src/database/database.ts'
import { type Answer, type Person, registerOrganization, startApp } from '../harness/app.ts'
import { untilWaitingForLocks } from '../harness/lock-waits.ts'
import { addOrganization, addPerson, setRole, tokenOf } from './world.ts'

const app = await startApp()
const { call, services } = app
const { db } = services
const acme = await registerOrganization(app)
const { owner, admin } = acme
const ROUNDS = 8

/** Answers of requests that were all let go at one moment; in every other round they are sent in the opposite order. */
async function race(round: number, gate: Statement, ...requests: (() => Promise<Answer>)[]): Promise<number[]> {
  const order = round % 2 === 0 ? requests : requests.toReversed()
  const answers = await db.transaction(async (tx) => {
    await tx.query(gate)
    const sent: Promise<Answer>[] = []
    for (const request of order) {
      sent.push(request())
      await untilWaitingForLocks(db, sent.length)
    }
    return sent
  })
  const statuses = (await Promise.all(answers)).map((answer) => {
    assert.ok(answer.status < 500, answer.text)
    return answer.status
  })
  return round % 2 === 0 ? statuses : statuses.toReversed()
}

async function eachRound(run: (round: number) => Promise<void>): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) await run(round)
}

const sorted = (statuses: number[]) => statuses.toSorted((a, b) => a - b)
const members = (...people: Person[]) =>
  sql`SELECT 1 FROM memberships WHERE organization_id = ${acme.id} AND user_id = ANY (${people.map((p) => p.id)}::uuid[]) FOR UPDATE`
const roleOf = async (person: Person) =>
  (
    await db.first<{ role: string }>(
      sql`SELECT role FROM memberships WHERE organization_id = ${acme.id} AND user_id = ${person.id}`,
    )
  )?.role ?? null
const owners = async () =>
  (
    await db.query<{ id: string }>(
      sql`SELECT user_id AS id FROM memberships WHERE organization_id = ${acme.id} AND role = 'owner'`,
    )
  ).map((row) => row.id)
const changeRole = (as: Person, target: Person, role: string) => () =>
  call('PUT', `/api/users/${target.id}/role`, { as, body: { role } })
const remove = (as: Person, target: Person) => () => call('DELETE', `/api/users/${target.id}`, { as })
const accept = (as: Person, token: string) => () =>
  call('POST', '/api/users/invitations/accept', { as, body: { token } })
const invite = (as: Person, email: string) => () =>
  call('POST', '/api/users/invite', { as, body: { email, role: 'member' } })
const grant = (as: Person, target: Person, domain_id: string) => () =>
  call('POST', `/api/users/${target.id}/domain-roles`, { as, body: { domain_id, role: 'member' } })
const makeDomain = async (): Promise<string> =>
  (await call('POST', '/api/domains', { as: owner, body: { name: randomUUID() } })).body.id

async function newInvitation(email = `${randomUUID()}@example.com`) {
  const { body } = await invite(owner, email)()
  const gate = sql`SELECT 1 FROM invitations WHERE id = ${body.id} FOR UPDATE`
  return { id: body.id as string, token: tokenOf(body.invite_url), gate }
}

test('one token creates one member, even if it is used twice at once', () =>
  eachRound(async (round) => {
    const { token, gate } = await newInvitation()
    const [one, two] = [await addOrganization(app), await addOrganization(app)]
    const second = round % 4 < 2 ? two : one
    assert.deepEqual(sorted(await race(round, gate, accept(one, token), accept(second, token))), [200, 400])
    const joined = [await roleOf(one), await roleOf(two)].filter((role) => role !== null)
    assert.deepEqual(joined, ['member'])
  }))

test('two concurrent invitations for one person create one membership', () =>
  eachRound(async (round) => {
    const [first, second] = [await newInvitation(), await newInvitation()]
    const person = await addOrganization(app)
    const gate = sql`SELECT 1 FROM invitations WHERE id IN (${first.id}, ${second.id}) FOR UPDATE`
    assert.deepEqual(
      sorted(await race(round, gate, accept(person, first.token), accept(person, second.token))),
      [200, 409],
    )
  }))

test('an address is invited once', () =>
  eachRound(async (round) => {
    const email = `${randomUUID()}@example.com`
    const requests = [invite(owner, email), invite(admin, email)]
    assert.deepEqual(sorted(await race(round, members(owner, admin), ...requests)), [201, 409])
    const list = await call('GET', '/api/users/invitations', { as: owner })
    assert.equal(list.body.filter((item: { email: string }) => item.email === email).length, 1)
  }))

test('an expired invitation is replaced once', () =>
  eachRound(async (round) => {
    const email = `${randomUUID()}@example.com`
    const { id } = await newInvitation(email)
    await db.execute(sql`UPDATE invitations SET expires_at = now() - interval '1 second' WHERE id = ${id}`)
    const requests = [invite(owner, email), invite(admin, email)]
    assert.deepEqual(sorted(await race(round, members(owner, admin), ...requests)), [201, 409])
  }))

test('nobody who joins is invited at the same moment', () =>
  eachRound(async (round) => {
    const person = await addOrganization(app)
    const { token, gate } = await newInvitation(person.email)
    const lock = sql`WITH gate AS (${gate}) SELECT 1 FROM gate, LATERAL (${members(owner)}) AS m`
    assert.deepEqual(await race(round, lock, accept(person, token), invite(owner, person.email)), [200, 409])
    const pending = await db.query(
      sql`SELECT 1 FROM invitations WHERE email = ${person.email} AND organization_id = ${acme.id} AND status = 'pending'`,
    )
    assert.equal(pending.length, 0)
  }))

test('an invitation is either cancelled or accepted', () =>
  eachRound(async (round) => {
    const { id, token, gate } = await newInvitation()
    const person = await addOrganization(app)
    const cancel = () => call('DELETE', `/api/users/invitations/${id}`, { as: owner })
    const [accepted, cancelled] = await race(round, gate, accept(person, token), cancel)
    assert.ok((accepted === 200 && cancelled === 404) || (accepted === 400 && cancelled === 204))
    assert.equal(await roleOf(person), accepted === 200 ? 'member' : null)
  }))

test('a member gets one role in a domain', () =>
  eachRound(async (round) => {
    const [person, domain] = [await addPerson(app, acme.id), await makeDomain()]
    const requests = [grant(owner, person, domain), grant(admin, person, domain)]
    assert.deepEqual(sorted(await race(round, members(person), ...requests)), [201, 409])
  }))

test('a role change against a removal ends in the removal', () =>
  eachRound(async (round) => {
    const person = await addPerson(app, acme.id)
    const requests = [changeRole(admin, person, 'admin'), remove(owner, person)]
    const [changed, removed] = await race(round, members(person), ...requests)
    assert.equal(removed, 204)
    assert.ok(changed === 200 || changed === 404)
    assert.equal(await roleOf(person), null)
  }))

test('a role in a domain against a removal leaves nothing behind', () =>
  eachRound(async (round) => {
    const [person, domain] = [await addPerson(app, acme.id), await makeDomain()]
    const [granted, removed] = await race(round, members(person), grant(owner, person, domain), remove(admin, person))
    assert.ok(removed === 204 && (granted === 201 || granted === 404))
    assert.deepEqual(await db.query(sql`SELECT 1 FROM domain_roles WHERE user_id = ${person.id}`), [])
  }))

test('two admins who demote or remove each other both fail', () =>
  eachRound(async (round) => {
    const [one, two] = [await addPerson(app, acme.id, 'One', 'admin'), await addPerson(app, acme.id, 'Two', 'admin')]
    const act = (as: Person, target: Person) => (round % 4 < 2 ? changeRole(as, target, 'viewer') : remove(as, target))
    assert.deepEqual(await race(round, members(one, two), act(one, two), act(two, one)), [403, 403])
    assert.deepEqual([await roleOf(one), await roleOf(two)], ['admin', 'admin'])
  }))

test('an admin who is demoted does nothing afterwards', () =>
  eachRound(async (round) => {
    const demoted = await addPerson(app, acme.id, 'Demoted', 'admin')
    const person = await addPerson(app, acme.id)
    const requests = [changeRole(owner, demoted, 'viewer'), changeRole(demoted, person, 'admin')]
    const [first, second] = await race(round, members(demoted), ...requests)
    assert.equal(first, 200)
    assert.equal(await roleOf(person), second === 200 ? 'admin' : 'viewer')
    assert.equal(second, round % 2 === 0 ? 403 : 200, 'who comes first at the lock decides')
  }))

test('a removed admin invites nobody and makes no key afterwards', () =>
  eachRound(async (round) => {
    const removed = await addPerson(app, acme.id, 'Removed', 'admin')
    const email = `${randomUUID()}@example.com`
    const makeKey = () => call('POST', '/api/api-keys', { as: removed, body: { name: 'late' } })
    const statuses = await race(round, members(removed), remove(owner, removed), invite(removed, email), makeKey)
    assert.deepEqual(statuses, round % 2 === 0 ? [204, 403, 403] : [204, 201, 201])
    const keys = await db.query(sql`SELECT 1 FROM api_keys WHERE created_by = ${removed.id} AND revoked_at IS NULL`)
    assert.equal(keys.length, 0, 'a key that was made just before is revoked with the rest')
  }))

test('an invitation that is accepted while its sender is removed is either accepted or cancelled', async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const inviter = await addPerson(app, acme.id, 'Inviter', 'admin')
    const guest = await addOrganization(app)
    const sent = await call('POST', '/api/users/invite', {
      as: inviter,
      body: { email: `${randomUUID()}@example.com`, role: 'admin' },
    })
    const token = tokenOf(sent.body.invite_url)
    const [accepted, removed] = await race(
      round,
      sql`SELECT 1 FROM invitations WHERE id = ${sent.body.id} FOR UPDATE`,
      () => call('POST', '/api/users/invitations/accept', { as: guest, body: { token } }),
      () => call('DELETE', `/api/users/${inviter.id}`, { as: owner }),
    )
    assert.equal(removed, 204)
    const row = await db.first<{ status: string }>(sql`SELECT status FROM invitations WHERE id = ${sent.body.id}`)
    assert.equal(row!.status, accepted === 200 ? 'accepted' : 'cancelled')
  }
})

test('there is always exactly one owner', () =>
  eachRound(async (round) => {
    const [heir, other] = [await addPerson(app, acme.id, 'Heir', 'admin'), await addPerson(app, acme.id, 'Other')]
    const transfer = (to: Person) => () =>
      call('POST', '/api/organization/transfer-ownership', { as: owner, body: { user_id: to.id } })

    const [moved, removed] = await race(round, members(owner, heir), transfer(heir), remove(owner, heir))
    assert.ok((moved === 200 && removed === 403) || (moved === 404 && removed === 204), `${moved} ${removed}`)
    assert.deepEqual(await owners(), [moved === 200 ? heir.id : owner.id])
    if (moved === 200) await giveBack(heir)

    const third = await addPerson(app, acme.id)
    assert.deepEqual(sorted(await race(round, members(owner), transfer(other), transfer(third))), [200, 403])
    const [now] = await owners()
    assert.ok(now === other.id || now === third.id)
    await giveBack(now === other.id ? other : third)

    const changes = [transfer(third), changeRole(admin, third, 'member')]
    const [given, changed] = await race(round, members(owner, third), ...changes)
    assert.equal(given, 200)
    assert.ok(changed === 200 || changed === 403)
    assert.deepEqual(await owners(), [third.id])
    await giveBack(third)
  }))

async function giveBack(from: Person): Promise<void> {
  await setRole(app, acme.id, from.id, 'viewer')
  await setRole(app, acme.id, owner.id, 'owner')
}

test('a domain name is taken once', () =>
  eachRound(async (round) => {
    const [name, other] = [randomUUID(), await makeDomain()]
    const create = () => call('POST', '/api/domains', { as: owner, body: { name } })
    const rename = () => call('PUT', `/api/domains/${other}`, { as: admin, body: { name } })
    const gate = sql`SELECT 1 FROM organizations WHERE id = ${acme.id} FOR UPDATE`
    assert.deepEqual(sorted(await race(round, gate, create, create)), [201, 409])
    const freed = randomUUID()
    await db.execute(sql`UPDATE domains SET name = ${freed} WHERE organization_id = ${acme.id} AND name = ${name}`)
    const statuses = await Promise.all([create(), rename()])
    assert.equal(statuses.filter((answer) => answer.status === 409).length, 1)
  }))

test('a pipeline that is added while its domain is deleted keeps the domain, or finds it gone', () =>
  eachRound(async (round) => {
    const domain = await makeDomain()
    const insert = sql`
      INSERT INTO pipelines (organization_id, name, config_box, stream, domain_id) VALUES (${acme.id}, 'p', '\\x00', 's', ${domain})`
    const commit = round % 2 === 0
    const deletion = { answer: null as Promise<Answer> | null }
    await db
      .transaction(async (tx) => {
        await tx.execute(insert)
        deletion.answer = call('DELETE', `/api/domains/${domain}`, { as: admin })
        await untilWaitingForLocks(db)
        if (!commit) throw new Error('rolled back')
      })
      .catch((error: Error) => assert.equal(error.message, 'rolled back'))
    const answer = await deletion.answer!
    assert.equal(answer.status, commit ? 403 : 204, answer.text)
    if (commit) return assert.equal(answer.body.detail, 'Move or delete the pipelines of this domain first')
    await assert.rejects(db.execute(insert), /foreign key/)
  }))

test('a key works until it is revoked and never after, even in concurrent requests', () =>
  eachRound(async () => {
    const key = (await call('POST', '/api/api-keys', { as: owner, body: { name: 'k' } })).body
    const use = () => call('GET', '/api/domains?limit=1', { as: key })
    const before = Array.from({ length: 10 }, use)
    const revoking = call('DELETE', `/api/api-keys/${key.id}`, { as: owner })
    const meanwhile = Array.from({ length: 10 }, use)
    assert.equal((await revoking).status, 204)
    const after = Array.from({ length: 10 }, use)
    for (const answer of await Promise.all([...before, ...meanwhile])) assert.ok([200, 401].includes(answer.status))
    for (const answer of await Promise.all(after)) assert.equal(answer.status, 401)
  }))

test('a key is revoked once', () =>
  eachRound(async (round) => {
    const key = (await call('POST', '/api/api-keys', { as: owner, body: { name: 'k' } })).body
    const revoke = (as: Person) => () => call('DELETE', `/api/api-keys/${key.id}`, { as })
    const gate = sql`SELECT 1 FROM api_keys WHERE id = ${key.id} FOR UPDATE`
    assert.deepEqual(sorted(await race(round, gate, revoke(owner), revoke(admin))), [204, 404])
  }))
