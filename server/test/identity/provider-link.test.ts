import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Actor } from '../../src/tenancy/actor.ts'
import { createApiKey } from '../../src/tenancy/api-keys.ts'
import { PASSWORD, registerPerson } from '../harness/app.ts'
import { type Browser, fragmentOf } from './browser.ts'
import { auditActions, me, openBrowser, PUBLIC_URL, provider, signIn, sluice, somebody } from './provider-setup.ts'

describe('linking', () => {
  const beginLink = async (browser: Browser, token: string): Promise<string> => {
    const answer = await browser.request(`${PUBLIC_URL}/api/auth/link/idp`, {
      headers: { authorization: `Bearer ${token}` },
    })
    assert.equal(answer.status, 200)
    return JSON.parse(answer.body).redirect_url
  }

  async function link(token: string): Promise<Record<string, string>> {
    const browser = openBrowser(sluice)
    return fragmentOf((await browser.visit(await beginLink(browser, token))).url)
  }

  test('a signed-in person links any account of the provider and signs in with it', async () => {
    const person = await registerPerson(sluice, 'Linker')
    provider.person = somebody({ email: 'private@elsewhere.test', email_verified: false })
    assert.deepEqual(await link(person.access_token), { linked: 'true' })
    assert.deepEqual(await link(person.access_token), { linked: 'true' })
    assert.equal((await me(sluice, (await signIn(sluice)).access_token)).body.id, person.id)
    const actions = await auditActions(sluice, person.email)
    assert.equal(actions.filter((action) => action === 'identity.linked').length, 1)
  })

  test('an identity that is linked to somebody else is refused', async () => {
    await signIn(sluice)
    const person = await registerPerson(sluice, 'Second')
    assert.deepEqual(await link(person.access_token), { error: 'identity_taken' })
    assert.equal((await me(sluice, person.access_token)).body.idp_linked, false)
  })

  test('a second identity is refused until the first is unlinked', async () => {
    const person = await registerPerson(sluice, 'Twice')
    assert.deepEqual(await link(person.access_token), { linked: 'true' })
    provider.person = somebody()
    assert.deepEqual(await link(person.access_token), { error: 'already_linked' })
    const unlinked = await sluice.call('DELETE', '/api/auth/unlink/idp', { as: person })
    assert.deepEqual([unlinked.status, typeof unlinked.body.message], [200, 'string'])
    assert.equal((await me(sluice, person.access_token)).body.idp_linked, false)
    assert.deepEqual(await link(person.access_token), { linked: 'true' })
    assert.ok((await auditActions(sluice, person.email)).includes('identity.unlinked'))
  })

  test('a link that another person is tricked into opening links nothing', async () => {
    const attacker = await registerPerson(sluice, 'Attacker')
    const url = await beginLink(openBrowser(sluice), attacker.access_token)
    const victim = openBrowser(sluice)
    assert.deepEqual(fragmentOf((await victim.visit(url)).url), { error: 'invalid_state' })
    assert.equal((await me(sluice, attacker.access_token)).body.idp_linked, false)
  })

  test('a link that was started before the password changed or the session ended cannot be completed', async () => {
    const person = await registerPerson(sluice, 'Robbed')
    const begun = async () => {
      const thief = openBrowser(sluice)
      const url = await beginLink(thief, person.access_token)
      return async () => fragmentOf((await thief.visit(url)).url)
    }
    const beforeChange = await begun()
    const body = { current_password: PASSWORD, new_password: 'Another-horse-2' }
    assert.equal((await sluice.call('PUT', '/api/auth/password', { as: person, body })).status, 200)
    assert.deepEqual(await beforeChange(), { error: 'invalid_state' })
    const beforeEnd = await begun()
    assert.equal((await sluice.call('POST', '/api/auth/logout', { as: person })).status, 200)
    assert.deepEqual(await beforeEnd(), { error: 'invalid_state' })
  })

  test('unlinking needs a password, and something to unlink', async () => {
    const { access_token } = await signIn(sluice)
    const refused = await sluice.call('DELETE', '/api/auth/unlink/idp', { as: { access_token: access_token! } })
    assert.equal(refused.status, 400)
    assert.match(refused.body.detail, /password/)
    assert.ok((await signIn(sluice)).access_token)
    const person = await registerPerson(sluice)
    assert.equal((await sluice.call('DELETE', '/api/auth/unlink/idp', { as: person })).status, 400)
  })

  test('linking and unlinking need a signed-in person', async () => {
    const person = await registerPerson(sluice)
    const actor = {
      ...person,
      user_id: person.id,
      request_id: 'test',
      client_address: 'test',
      api_key_id: null,
      scope: null,
    } as unknown as Actor
    const { key } = await createApiKey(sluice.services.db, actor, { name: 'k', expires_in_days: 30 })
    for (const [method, url] of [
      ['GET', '/api/auth/link/idp'],
      ['DELETE', '/api/auth/unlink/idp'],
    ] as const) {
      assert.equal((await sluice.call(method, url)).status, 401)
      assert.equal((await sluice.call(method, url, { as: { key } })).status, 403)
    }
  })
})
