/** An organization with a caller of every kind, and fresh things in it for a request to act on. */
import { randomBytes, randomUUID } from 'node:crypto'
import { sql } from '../../src/database/database.ts'
import { openSession } from '../../src/identity/sessions.ts'
import { type CallOptions, type Person, registerOrganization, registerPerson, type TestApp } from '../harness/app.ts'

export const CALLERS = [
  'owner',
  'admin',
  'member',
  'viewer',
  'raised',
  'steward',
  'nobody',
  'stranger',
  'owner_key',
  'admin_key',
  'member_key',
  'viewer_key',
  'reader_key',
  'domain_key',
  'elsewhere_key',
] as const
export type Caller = (typeof CALLERS)[number]

export interface World {
  test: TestApp
  organization_id: string
  /** Where `raised` is a member and `steward` an admin; both are viewers everywhere else. */
  domain_id: string
  people: Record<'owner' | 'admin' | 'member' | 'viewer' | 'raised' | 'steward' | 'stranger', Person>
  as(caller: Caller): CallOptions['as']
  /** A session of the caller's own that a request may end. */
  freshSession(caller: Caller): Promise<CallOptions['as']>
  freshSessionId(caller: Caller): Promise<string>
  freshMember(): Promise<string>
  freshDomain(): Promise<string>
  freshKey(caller: Caller): Promise<string>
  freshInvitation(): Promise<string>
  /** A role that a fresh member holds in the shared domain: the names are those of its path. */
  freshDomainRole(): Promise<{ params: { user_id: string; domain_id: string } }>
  /** The token of an invitation to an organization that nobody here belongs to. */
  freshToken(): Promise<string>
}

export async function createWorld(test: TestApp): Promise<World> {
  const { call, services } = test
  const { owner, admin, member, viewer, id: organization_id } = await registerOrganization(test)
  const stranger = await registerPerson(test, 'Stranger')
  const raised = await addPerson(test, organization_id, 'Raised')
  const steward = await addPerson(test, organization_id, 'Steward')
  const people = { owner, admin, member, viewer, raised, steward, stranger }

  const create = async (url: string, as: CallOptions['as'], body: unknown) => {
    const answer = await call('POST', url, { as: as ?? null, body })
    if (answer.status !== 201) throw new Error(`POST ${url}: ${answer.text}`)
    return answer.body
  }
  const domain_id: string = (await create('/api/domains', owner, { name: 'Shared' })).id
  await create(`/api/users/${raised.id}/domain-roles`, owner, { domain_id, role: 'member' })
  await create(`/api/users/${steward.id}/domain-roles`, owner, { domain_id, role: 'admin' })

  const keys = new Map<string, string>()
  for (const person of [owner, admin, member, viewer]) {
    // A viewer makes no keys, but one who was a member before keeps theirs.
    const isViewer = person === viewer
    if (isViewer) await setRole(test, organization_id, person.id, 'member')
    keys.set(`${person.role}_key`, (await create('/api/api-keys', person, { name: 'key' })).key)
    if (isViewer) await setRole(test, organization_id, person.id, 'viewer')
  }
  // Keys of the owner with limits: one that reads pipelines, and two that do everything, in the shared or another domain.
  const elsewhere: string = (await create('/api/domains', owner, { name: 'Elsewhere' })).id
  const all = ['pipelines:read', 'pipelines:write', 'pipelines:run', 'domains:read', 'domains:write']
  for (const [name, scopes] of [
    ['reader_key', { permissions: ['pipelines:read'] }],
    ['domain_key', { permissions: all, domain_id }],
    ['elsewhere_key', { permissions: all, domain_id: elsewhere }],
  ] as const)
    keys.set(name, (await create('/api/api-keys', owner, { name, scopes })).key)
  const personOf = (caller: Caller): Person | undefined => people[caller.replace('_key', '') as keyof typeof people]
  const as = (caller: Caller): CallOptions['as'] => {
    const key = keys.get(caller)
    return key === undefined ? (personOf(caller) ?? null) : { key }
  }

  return {
    test,
    organization_id,
    domain_id,
    people,
    as,
    async freshSession(caller) {
      const person = personOf(caller)
      if (!person || keys.has(caller)) return as(caller)
      return services.db.transaction((tx) =>
        openSession(tx, services.tokens, { user_id: person.id, organization_id: person.organization_id }),
      )
    },
    async freshSessionId(caller) {
      const person = personOf(caller)!
      const { access_token } = await services.db.transaction((tx) =>
        openSession(tx, services.tokens, { user_id: person.id, organization_id: person.organization_id }),
      )
      return (await services.tokens.verifyAccess(access_token))!.sid
    },
    freshMember: async () => (await addPerson(test, organization_id, 'Fresh')).id,
    freshDomain: async () => (await create('/api/domains', owner, { name: randomUUID() })).id,
    async freshKey(caller) {
      const row = await services.db.first<{ id: string }>(sql`
        INSERT INTO api_keys (organization_id, created_by, name, key_prefix, key_hash)
        VALUES (${organization_id}, ${(caller === 'stranger' ? owner : (personOf(caller) ?? owner)).id}, 'fresh', 'svc_live_abc', ${randomBytes(32)}) RETURNING id`)
      return row!.id
    },
    freshInvitation: async () =>
      (await create('/api/users/invite', owner, { email: `${randomUUID()}@example.com`, role: 'viewer' })).id,
    async freshDomainRole() {
      const { id: user_id } = await addPerson(test, organization_id, 'Fresh')
      await create(`/api/users/${user_id}/domain-roles`, owner, { domain_id, role: 'member' })
      return { params: { user_id, domain_id } }
    },
    async freshToken() {
      const host = await addOrganization(test)
      const invited = await create('/api/users/invite', host, { email: `${randomUUID()}@example.com`, role: 'viewer' })
      return tokenOf(invited.invite_url)
    },
  }
}

export const tokenOf = (inviteUrl: string): string => new URL(inviteUrl).searchParams.get('token') ?? ''

/** A signed-in person made by SQL: no password is hashed. A viewer of the organization unless said otherwise. */
export async function addPerson(
  test: TestApp,
  organizationId: string,
  name = 'Person',
  role: Person['role'] = 'viewer',
): Promise<Person> {
  const { db, tokens } = test.services
  const email = `${name.toLowerCase()}.${randomUUID()}@example.com`
  return db.transaction(async (tx) => {
    const user = await tx.first<{ id: string }>(
      sql`INSERT INTO users (email, name) VALUES (${email}, ${name}) RETURNING id`,
    )
    await tx.execute(
      sql`INSERT INTO memberships (organization_id, user_id, role) VALUES (${organizationId}, ${user!.id}, ${role})`,
    )
    const { access_token, refresh_token } = await openSession(tx, tokens, {
      user_id: user!.id,
      organization_id: organizationId,
    })
    return { id: user!.id, email, access_token, refresh_token, organization_id: organizationId, role }
  })
}

/** An organization made by SQL; returns its owner, signed in. */
export async function addOrganization(test: TestApp): Promise<Person> {
  const row = await test.services.db.first<{ id: string }>(
    sql`INSERT INTO organizations (name, slug) VALUES ('Elsewhere', ${randomUUID()}) RETURNING id`,
  )
  return addPerson(test, row!.id, 'Host', 'owner')
}

export const setRole = (test: TestApp, organizationId: string, userId: string, role: string): Promise<number> =>
  test.services.db.execute(
    sql`UPDATE memberships SET role = ${role} WHERE organization_id = ${organizationId} AND user_id = ${userId}`,
  )
