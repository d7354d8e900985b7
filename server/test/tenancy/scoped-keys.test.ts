import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { domainPermissions, keyPermissions, permissions } from '../../src/tenancy/permissions.ts'
import { type Answer, type CallOptions, type Person, registerOrganization, startApp } from '../harness/app.ts'
import { addOrganization, setRole, tokenOf } from './world.ts'

const app = await startApp()
const { call, services } = app
const { db } = services
const acme = await registerOrganization(app)

type Key = { id: string; key: string; expires_at: string | null }
const makeKey = (as: CallOptions['as'], limits: object = {}): Promise<Answer> =>
  call('POST', '/api/api-keys', { as: as ?? null, body: { name: 'key', ...limits } })
async function key(as: CallOptions['as'], limits: object = {}): Promise<Key> {
  const answer = await makeKey(as, limits)
  assert.equal(answer.status, 201, answer.text)
  return answer.body
}
const refused = async (as: CallOptions['as'], limits: object): Promise<string> => {
  const { status, body } = await makeKey(as, limits)
  return `${status} ${body.detail}`
}
async function create(url: string, body: object, as: CallOptions['as'] = acme.owner): Promise<string> {
  const answer = await call('POST', url, { as: as ?? null, body })
  assert.equal(answer.status, 201, answer.text)
  return answer.body.id
}
const statusOf = async (method: string, url: string, as: CallOptions['as'], body?: unknown): Promise<number> =>
  (await call(method, url, { as: as ?? null, ...(body === undefined ? {} : { body }) })).status
const scopesOf = async (id: string) => {
  const { body } = await call('GET', '/api/api-keys', { as: acme.owner })
  return body.find((item: { id: string }) => item.id === id)?.scopes
}

const config = {
  source: { name: 'dummy', stream: 'creatures', config: { records: 1 } },
  destination: { name: 'file', config: {} },
}
const [here, there] = [await create('/api/domains', { name: 'Here' }), await create('/api/domains', { name: 'There' })]
const pipelineIn = (domain_id: string | null, name = 'p') => create('/api/pipelines', { name, config, domain_id })

/** A saved source that reads the output of a run. */
const saveReaderOf = (run_id: string) =>
  create('/api/saved/sources', { name: 'reader', connector_name: 'file', config: { config: { run_id } } })

describe('choosing the limits of a key', () => {
  test('they are shown in the list; without any, scopes is empty', async () => {
    assert.deepEqual(await scopesOf((await key(acme.owner)).id), {})
    assert.deepEqual(await scopesOf((await key(acme.owner, { role: 'member' })).id), { role: 'member' })
    const limits = { role: 'viewer', scopes: { permissions: ['pipelines:read'], domain_id: here.toUpperCase() } }
    assert.deepEqual(await scopesOf((await key(acme.owner, limits)).id), {
      role: 'viewer',
      permissions: ['pipelines:read'],
      domain_id: here,
    })
  })

  test('nobody can pass on a role or a permission that they do not have', async () => {
    assert.match(await refused(acme.member, { role: 'admin' }), /^403 role: admin is above your own role, member/)
    assert.equal((await makeKey(acme.member, { role: 'member' })).status, 201)
    const tooMuch = { scopes: { permissions: ['pipelines:read', 'users:invite'] } }
    assert.match(await refused(acme.member, tooMuch), /^403 scopes.permissions: you do not have users:invite yourself/)
    assert.match(await refused(acme.viewer, { role: 'viewer' }), /^403 /)
  })

  test('permissions from a domain role can be passed on for that domain only', async () => {
    await create(`/api/users/${acme.member.id}/domain-roles`, { domain_id: here, role: 'admin' })
    const scopes = { permissions: ['domains:write'] }
    assert.equal((await makeKey(acme.member, { scopes: { ...scopes, domain_id: here } })).status, 201)
    assert.match(await refused(acme.member, { scopes: { ...scopes, domain_id: there } }), /^403 /)
    assert.match(await refused(acme.member, { scopes }), /^403 /)
    await call('DELETE', `/api/users/${acme.member.id}/domain-roles/${here}`, { as: acme.owner })
  })

  test('permissions that concern the whole organization cannot be limited to a domain', async () => {
    for (const permission of keyPermissions.filter((name) => !domainPermissions.includes(name)))
      assert.match(
        await refused(acme.owner, { scopes: { permissions: [permission], domain_id: here } }),
        /^400 scopes.permissions: \S+ concerns the whole organization; with a domain_id a key can have domains:read,/,
        permission,
      )
  })

  test('a domain that is unknown or of another organization is 404', async () => {
    const stranger = await addOrganization(app)
    const foreign = await create('/api/domains', { name: 'Foreign' }, stranger)
    for (const domain_id of [randomUUID(), foreign])
      assert.equal(
        await refused(acme.owner, { scopes: { permissions: ['pipelines:read'], domain_id } }),
        '404 Domain not found',
      )
  })

  test('what does not fit is 400', async () => {
    for (const limits of [
      { role: 'king' },
      { role: null },
      { scopes: {} },
      { scopes: { permissions: [] } },
      { scopes: { permissions: ['pipelines:read', 'pipelines:read'] } },
      { scopes: { permissions: ['pipelines:everything'] } },
      { scopes: { permissions: ['organization:transfer'] } },
      { scopes: { permissions: 'pipelines:read' } },
      { scopes: { permissions: ['pipelines:read'], domain_id: 'x' } },
      { scopes: { permissions: ['pipelines:read'], domain: here } },
    ])
      assert.equal((await makeKey(acme.owner, limits)).status, 400, JSON.stringify(limits))
  })
})

describe('a key with limits', () => {
  test('needs the permission of the key and of its creator at every request', async () => {
    const limited = await key(acme.admin, { scopes: { permissions: ['domains:write', 'pipelines:read'] } })
    const make = (as: CallOptions['as']) => statusOf('POST', '/api/domains', as, { name: randomUUID() })
    assert.equal(await make(limited), 201)
    await setRole(app, acme.id, acme.admin.id, 'member')
    assert.equal(await make(limited), 403, 'the creator may no longer')
    await setRole(app, acme.id, acme.admin.id, 'admin')
    assert.equal(await make(limited), 201)
    assert.equal(await statusOf('GET', '/api/users', limited), 403, 'the creator may, the key may not')
  })

  test('with a role has that role, also in rules that compare roles', async () => {
    const [asAdmin, asMember] = [await key(acme.owner, { role: 'admin' }), await key(acme.owner, { role: 'member' })]
    assert.equal((await call('GET', '/api/auth/me', { as: asAdmin })).body.role, 'admin')
    const changeAdmin = (as: CallOptions['as']) =>
      statusOf('PUT', `/api/users/${acme.admin.id}/role`, as, { role: 'admin' })
    assert.equal(await changeAdmin(asAdmin), 403, 'an admin does not change another admin')
    assert.equal(await changeAdmin(acme.owner), 200)
    const grantAdmin = (as: CallOptions['as']) =>
      statusOf('POST', `/api/users/${acme.viewer.id}/domain-roles`, as, { domain_id: here, role: 'admin' })
    assert.equal(await grantAdmin(asAdmin), 403, 'only the owner grants the admin role in a domain')
    const ofAdmin = await key(acme.admin)
    assert.equal(
      await statusOf('DELETE', `/api/api-keys/${ofAdmin.id}`, asMember),
      403,
      'a member revokes only own keys',
    )
    assert.equal(await statusOf('DELETE', `/api/api-keys/${ofAdmin.id}`, asAdmin), 204)
  })

  test('sees in me what it may do, and nothing of other domains', async () => {
    await create(`/api/users/${acme.member.id}/domain-roles`, { domain_id: there, role: 'admin' })
    const reader = await key(acme.member, { scopes: { permissions: ['pipelines:read'], domain_id: here } })
    const { body } = await call('GET', '/api/auth/me', { as: reader })
    assert.deepEqual([body.permissions, body.domain_roles], [['pipelines:read'], []])
    assert.equal((await call('GET', '/api/auth/me', { as: await key(acme.member) })).body.domain_roles.length, 1)
    await call('DELETE', `/api/users/${acme.member.id}/domain-roles/${there}`, { as: acme.owner })
  })

  test('neither joins another organization nor sees which ones its creator is in', async () => {
    const host = await addOrganization(app)
    const invited = await call('POST', '/api/users/invite', {
      as: host,
      body: { email: `${randomUUID()}@example.com`, role: 'admin' },
    })
    const limited = await key(acme.owner, { role: 'owner' })
    const token = tokenOf(invited.body.invite_url)
    assert.equal(await statusOf('POST', '/api/users/invitations/accept', limited, { token }), 403)
    assert.equal(await statusOf('GET', '/api/auth/organizations', limited), 403)
  })

  test('saves a source that reads the output of a run only if it may read runs', async () => {
    const save = async (...permissions: string[]) =>
      statusOf('POST', '/api/saved/sources', await key(acme.owner, { scopes: { permissions } }), {
        name: randomUUID(),
        connector_name: 'file',
        config: { config: { run_id: randomUUID() } },
      })
    assert.equal(await save('connectors:write'), 403)
    assert.equal(await save('connectors:write', 'pipelines:read'), 201)
  })

  test('sees secrets only with the permission to write', async () => {
    const id = await create('/api/saved/sources', {
      name: 's',
      connector_name: 'file',
      config: {
        authentication: { type: 'bearer', params: { token: 'hidden' } },
        config: { url: 'https://a.example/x' },
      },
    })
    const read = async (...names: string[]) =>
      (await call('GET', `/api/saved/sources/${id}`, { as: await key(acme.owner, { scopes: { permissions: names } }) }))
        .text
    assert.ok(!(await read('connectors:read')).includes('hidden'))
    assert.ok((await read('connectors:read', 'connectors:write')).includes('hidden'))
  })

  test('that may write but not read cannot send a stored secret elsewhere, nor test guesses', async () => {
    const config = { host: 'db.example', user: 'u', password: 'hidden-1', table: 't' }
    const saved = `/api/saved/destinations/${await create('/api/saved/destinations', { name: 'd', connector_name: 'postgres', config })}`
    const source = { name: 'dummy', stream: 'plants' }
    const inline = { source, destination: { name: 'postgres', config } }
    const pipeline = `/api/pipelines/${await create('/api/pipelines', { name: 'p', config: inline })}`
    const change = { ...config, password: '********', host: 'evil.example' }
    for (const [area, path, body] of [
      ['connectors', saved, { config: change }],
      ['pipelines', pipeline, { config: { source, destination: { name: 'postgres', config: change } } }],
    ] as const) {
      const writer = await key(acme.owner, { scopes: { permissions: [`${area}:write`] } })
      const refused = await call('PUT', path, { as: writer, body })
      assert.match(`${refused.status} ${refused.body.detail}`, new RegExp(`^403 .*${area}:read`))
      const both = await key(acme.owner, { scopes: { permissions: [`${area}:write`, `${area}:read`] } })
      assert.equal((await call('PUT', path, { as: both, body })).status, 200, 'who reads secrets may do so')
    }
  })

  test('one permission does not give access to data of another one', async () => {
    const source = await create('/api/saved/sources', { name: 's', connector_name: 'dummy', config: {} })
    const connectors = await key(acme.owner, { scopes: { permissions: ['connectors:read', 'connectors:write'] } })
    assert.equal(await statusOf('GET', `/api/saved/sources/${source}/pipelines`, connectors), 403)
    const run = await create(`/api/pipelines/${await pipelineIn(null)}/run`, {})
    const inline = { source: { name: 'file', config: { run_id: run } } }
    const named = { source: { saved_connector_id: await saveReaderOf(run.toUpperCase()) } }
    for (const probed of [inline, named])
      for (const [what, more] of [
        ['check', {}],
        ['check', { stream: 'rows' }],
        ['streams', {}],
        ['streams', { describe: true }],
      ] as const)
        assert.equal(await statusOf('POST', `/api/connectors/${what}`, connectors, { ...probed, ...more }), 403)
    const writer = await key(acme.owner, { scopes: { permissions: ['pipelines:write'] } })
    const reading = { ...config, source: { name: 'file', stream: 'rows', config: { run_id: run } } }
    const answer = await call('POST', '/api/pipelines', { as: writer, body: { name: 'r', config: reading } })
    assert.match(`${answer.status} ${answer.body.detail}`, /^400 config.source.config.run_id: /)
    assert.equal(await statusOf('POST', '/api/pipelines', acme.owner, { name: 'r', config: reading }), 201)
    const saved = { ...config, source: { ...named.source, stream: 'rows' } }
    assert.equal(await statusOf('POST', '/api/pipelines', writer, { name: 'r', config: saved }), 400)
    assert.equal(await statusOf('POST', '/api/pipelines', acme.owner, { name: 'r', config: saved }), 201)
  })

  test('without custom_sources:read lists only the built-in sources', async () => {
    await db.execute(sql`
      WITH made AS (INSERT INTO custom_sources (organization_id, name, source_name) VALUES (${acme.id}, 'Own', 'own_source') RETURNING id)
      INSERT INTO custom_source_versions (custom_source_id, version, code, streams, config_schema)
      SELECT id, 1, 'x = 1', '["a"]', '{"config_fields": []}' FROM made`)
    const names = async (permission: string[]) => {
      const as = await key(acme.owner, { scopes: { permissions: permission } })
      return (await call('GET', '/api/connectors/sources', { as })).body.map(({ name }: { name: string }) => name)
    }
    assert.ok(!(await names(['connectors:read'])).includes('own_source'))
    assert.ok((await names(['connectors:read', 'custom_sources:read'])).includes('own_source'))
  })
})

describe('a key of one domain', () => {
  const everything = [...domainPermissions]

  test('lists only the pipelines and runs of its domain', async () => {
    const [inside, outside, loose] = [await pipelineIn(here), await pipelineIn(there), await pipelineIn(null)]
    for (const id of [inside, outside, loose]) await create(`/api/pipelines/${id}/run`, {})
    const as = await key(acme.owner, { scopes: { permissions: everything, domain_id: here } })
    const pipelines = await call('GET', '/api/pipelines', { as })
    assert.ok(pipelines.body.length > 0)
    assert.ok(pipelines.body.every(({ domain_id }: { domain_id: string }) => domain_id === here))
    assert.equal(pipelines.headers['x-total-count'], String(pipelines.body.length))
    const runs = await call('GET', '/api/runs', { as })
    assert.ok(runs.body.length > 0)
    assert.ok(runs.body.every(({ domain_id }: { domain_id: string }) => domain_id === here))
    assert.equal(runs.headers['x-total-count'], String(runs.body.length))
    for (const url of [
      `/api/pipelines?domain_id=${there}`,
      `/api/runs?domain_id=${there}`,
      `/api/runs?pipeline_id=${outside}`,
    ])
      assert.deepEqual((await call('GET', url, { as })).body, [], url)
    const domains = await call('GET', '/api/domains', { as })
    assert.deepEqual(
      domains.body.map(({ id }: { id: string }) => id),
      [here],
    )
  })

  test('cannot create, move or copy a pipeline outside its domain, nor move one in', async () => {
    const [inside, outside] = [await pipelineIn(here), await pipelineIn(there)]
    const as = await key(acme.owner, { scopes: { permissions: everything, domain_id: here } })
    for (const domain_id of [there, null]) {
      assert.equal(await statusOf('POST', '/api/pipelines', as, { name: 'n', config, domain_id }), 403)
      assert.equal(await statusOf('PUT', `/api/pipelines/${inside}`, as, { domain_id }), 403)
    }
    assert.equal(await statusOf('POST', '/api/pipelines', as, { name: 'n', config }), 403)
    assert.equal(await statusOf('PUT', `/api/pipelines/${outside}`, as, { domain_id: here }), 404)
    const copy = await call('POST', `/api/pipelines/${inside}/copy`, { as, body: {} })
    assert.deepEqual([copy.status, copy.body.domain_id], [201, here])
    assert.equal(await statusOf('POST', `/api/pipelines/${outside}/copy`, as, {}), 404)
  })

  test('cannot read the output of a run outside its domain through a pipeline', async () => {
    const run = await create(`/api/pipelines/${await pipelineIn(there)}/run`, {})
    const as = await key(acme.owner, { scopes: { permissions: everything, domain_id: here } })
    const reading = { ...config, source: { name: 'file', stream: 'rows', config: { run_id: run } } }
    const inside = await pipelineIn(here)
    const body = { name: 'n', config: reading, domain_id: here }
    for (const [method, url] of [
      ['POST', '/api/pipelines'],
      ['PUT', `/api/pipelines/${inside}`],
    ] as const) {
      const answer = await call(method, url, { as, body })
      assert.match(`${answer.status} ${answer.body.detail}`, /^400 config.source.config.run_id: /)
      assert.ok((await call(method, url, { as: acme.owner, body })).status < 300)
    }
    const hidden = { ...reading, source: { ...reading.source, name: '********' } }
    const answer = await call('PUT', `/api/pipelines/${inside}`, { as, body: { config: hidden } })
    assert.match(`${answer.status} ${answer.body.detail}`, /^400 config.source.name: cannot be masked/)
  })

  test('cannot read it through a saved source, a copy or a mask either', async () => {
    const run = await create(`/api/pipelines/${await pipelineIn(there)}/run`, {})
    const own = await create(`/api/pipelines/${await pipelineIn(here)}/run`, {})
    const as = await key(acme.owner, { scopes: { permissions: everything, domain_id: here } })
    const through = async (id: string) => ({
      ...config,
      source: { saved_connector_id: await saveReaderOf(id), stream: 'rows' },
    })
    const [foreign, allowed] = [await through(run.toUpperCase()), await through(own)]
    const inside = await pipelineIn(here)
    const attempts = (reading: object) => [
      call('POST', '/api/pipelines', { as, body: { name: 'n', config: reading, domain_id: here } }),
      call('PUT', `/api/pipelines/${inside}`, { as, body: { config: reading } }),
    ]
    for (const answer of await Promise.all(attempts(foreign))) {
      assert.match(`${answer.status} ${answer.body.detail}`, /^400 config.source.saved_connector_id: .* no such run/)
      assert.ok(!answer.text.toLowerCase().includes(run), 'the settings of the saved source stay hidden')
    }
    for (const answer of await Promise.all(attempts(allowed))) assert.ok(answer.status < 300, answer.text)
    const { stream: _, ...source } = foreign.source
    const bulk = { streams: ['rows'], config: { ...foreign, source }, domain_id: here }
    assert.equal(await statusOf('POST', '/api/pipelines/bulk', as, bulk), 400)
    const inline = { ...config, source: { name: 'file', stream: 'rows', config: { run_id: run } } }
    for (const reading of [foreign, inline]) {
      const made = await create('/api/pipelines', { name: 'n', config: reading, domain_id: here })
      for (const copy of ['copy', 'duplicate'])
        assert.equal(await statusOf('POST', `/api/pipelines/${made}/${copy}`, as, {}), 400)
      assert.equal(await statusOf('POST', `/api/pipelines/${made}/copy`, acme.owner, {}), 201)
    }
    const made = await create('/api/pipelines', { name: 'n', config: inline, domain_id: here })
    const masked = { ...inline, source: { ...inline.source, config: { run_id: '********' } } }
    assert.equal(await statusOf('PUT', `/api/pipelines/${made}`, as, { config: masked }), 400)
    await call('DELETE', `/api/saved/sources/${foreign.source.saved_connector_id}`, { as: acme.owner })
  })

  test('loses access to a pipeline that is moved away, and to everything once its domain is deleted', async () => {
    const domain = await create('/api/domains', { name: randomUUID() })
    const id = await pipelineIn(domain)
    const as = await key(acme.owner, { scopes: { permissions: everything, domain_id: domain } })
    assert.equal(await statusOf('GET', `/api/pipelines/${id}`, as), 200)
    await call('PUT', `/api/pipelines/${id}`, { as: acme.owner, body: { domain_id: there } })
    assert.equal(await statusOf('GET', `/api/pipelines/${id}`, as), 404)
    assert.equal(await statusOf('DELETE', `/api/domains/${domain}`, acme.owner), 204)
    assert.deepEqual((await call('GET', '/api/pipelines', { as })).body, [])
    assert.equal(await statusOf('POST', '/api/pipelines', as, { name: 'n', config, domain_id: domain }), 404)
  })
})

describe('a key that was created with a key', () => {
  test('has at most its limits, whether or not it requests any', async () => {
    const limits = { role: 'admin', scopes: { permissions: ['api_keys:write', 'pipelines:read'] } }
    const parent = await key(acme.owner, limits)
    const child = await key(parent)
    assert.deepEqual(await scopesOf(child.id), { role: 'admin', permissions: ['api_keys:write', 'pipelines:read'] })
    const narrower = await key(child, { role: 'viewer', scopes: { permissions: ['pipelines:read'], domain_id: here } })
    assert.deepEqual(await scopesOf(narrower.id), { role: 'viewer', permissions: ['pipelines:read'], domain_id: here })
    assert.match(await refused(parent, { scopes: { permissions: ['pipelines:write'] } }), /^403 scopes.permissions/)
    assert.match(await refused(parent, { role: 'owner' }), /^403 role/)
    assert.match(await refused(narrower, {}), /^403 /)
  })

  test('is revoked with it, and so are the keys created with it in turn', async () => {
    const first = await key(acme.member)
    const second = await key(first)
    const [third, other] = [await key(second), await key(acme.member)]
    for (const as of [first, second, third]) assert.equal(await statusOf('GET', '/api/auth/me', as), 200)
    assert.equal(await statusOf('DELETE', `/api/api-keys/${second.id}`, acme.member), 204)
    for (const as of [second, third]) assert.equal(await statusOf('GET', '/api/auth/me', as), 401)
    assert.equal(await statusOf('GET', '/api/auth/me', first), 200)
    assert.equal(await statusOf('DELETE', `/api/api-keys/${first.id}`, acme.member), 204)
    assert.equal(await statusOf('GET', '/api/auth/me', other), 200)
    const lines = await call('GET', '/api/audit?action=api_key.revoked&limit=3', { as: acme.owner })
    assert.deepEqual(
      new Set(lines.body.map(({ object_id }: { object_id: string }) => object_id)),
      new Set([first.id, second.id, third.id]),
    )
  })

  test('never outlives it', async () => {
    const parent = await key(acme.member, { expires_in_days: 30 })
    for (const expires_in_days of [null, 365, 30])
      assert.equal((await key(parent, { expires_in_days })).expires_at, parent.expires_at)
    const child = await key(parent)
    await db.execute(sql`UPDATE api_keys SET expires_at = now() + interval '1 hour' WHERE id = ${child.id}`)
    const [{ expires_at }] = (await db.query<{ expires_at: string }>(
      sql`SELECT expires_at FROM api_keys WHERE id = ${child.id}`,
    )) as [{ expires_at: string }]
    assert.equal((await key(child, { expires_in_days: 30 })).expires_at, expires_at)
  })

  test('cannot be created with a key that is revoked at the same time', async () => {
    for (let round = 0; round < 8; round++) {
      const parent = await key(acme.member)
      const middle = await key(parent)
      const [made, revoked] = await Promise.all([
        makeKey(middle),
        call('DELETE', `/api/api-keys/${parent.id}`, { as: acme.owner }),
      ])
      assert.equal(revoked.status, 204)
      assert.ok([201, 401].includes(made.status), made.text)
      if (made.status === 201) assert.equal(await statusOf('GET', '/api/auth/me', made.body), 401)
    }
  })

  test('cannot be created in a session that a key opened', async () => {
    const host = await addOrganization(app)
    const invited = await call('POST', '/api/users/invite', {
      as: host,
      body: { email: `${randomUUID()}@example.com`, role: 'admin' },
    })
    const opener = await key(acme.member)
    const accepted = await call('POST', '/api/users/invitations/accept', {
      as: opener,
      body: { token: tokenOf(invited.body.invite_url) },
    })
    assert.equal(accepted.status, 200)
    assert.match(await refused(accepted.body, {}), /^403 A session that an API key opened cannot create API keys/)
  })
})

test('a key cannot transfer the ownership', async () => {
  const transfer = (as: CallOptions['as']) =>
    statusOf('POST', '/api/organization/transfer-ownership', as, { user_id: acme.admin.id })
  assert.equal(await transfer(await key(acme.owner)), 403)
  assert.equal(await transfer(await key(acme.owner, { role: 'owner' })), 403)
  const { body } = await call('GET', '/api/auth/me', { as: await key(acme.owner) })
  assert.ok(!body.permissions.includes('organization:transfer'))
  const mine = (await call('GET', '/api/auth/me', { as: acme.owner })).body.permissions
  assert.deepEqual(mine, Object.keys(permissions))
  const heir: Person = acme.admin
  assert.equal(await transfer(acme.owner), 200)
  assert.equal(
    await statusOf('POST', '/api/organization/transfer-ownership', heir, { user_id: acme.owner.id }),
    200,
    'a session needs nothing but user_id',
  )
})
