import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { registerPerson, startApp } from '../harness/app.ts'
import { auditActions, me, openBrowser, provider, START, settings, signIn, sluice, somebody } from './provider-setup.ts'

describe('signing in', () => {
  test('a new person gets an account and an organization of their own', async () => {
    const browser = openBrowser(sluice)
    const { access_token, refresh_token, expires_in, token_type } = await signIn(sluice, browser)
    assert.deepEqual([expires_in, token_type], ['86400', 'bearer'])
    const { body } = await me(sluice, access_token)
    const { email, name, avatar_url, role, has_password, idp_linked } = body
    assert.deepEqual(
      { email, name, avatar_url, role, has_password, idp_linked },
      {
        email: provider.person!.email!.toLowerCase(),
        name: 'Ada',
        avatar_url: 'https://img.test/a.png',
        role: 'owner',
        has_password: false,
        idp_linked: true,
      },
    )
    assert.equal(body.organization.name, "Ada's organization")
    const refreshed = await sluice.call('POST', '/api/auth/refresh', { body: { refresh_token } })
    assert.equal(refreshed.status, 200)
    assert.deepEqual(await auditActions(sluice, email), ['organization.created', 'user.registered', 'session.opened'])
  })

  test('the same person comes back to the same account, with name and picture as they are now', async () => {
    const first = await me(sluice, (await signIn(sluice)).access_token)
    provider.person = {
      ...provider.person!,
      name: 'Ada Lovelace',
      picture: 'https://img.test/b.png',
      email: 'moved@example.com',
    }
    const second = await me(sluice, (await signIn(sluice)).access_token)
    assert.equal(second.body.id, first.body.id)
    assert.equal(second.body.email, first.body.email)
    assert.deepEqual([second.body.name, second.body.avatar_url], ['Ada Lovelace', 'https://img.test/b.png'])
    assert.equal(second.body.organization.id, first.body.organization.id)
  })

  test('two first sign-ins at once make one account', async () => {
    const [one, two] = await Promise.all([signIn(sluice), signIn(sluice)])
    const ids = [await me(sluice, one.access_token), await me(sluice, two.access_token)].map((answer) => answer.body.id)
    assert.equal(ids[0], ids[1])
  })

  test('a verified address opens the account that has it and links the identity', async () => {
    const person = await registerPerson(sluice, 'Grace')
    provider.person = somebody({ email: person.email.toUpperCase() })
    const { body } = await me(sluice, (await signIn(sluice)).access_token)
    assert.deepEqual([body.id, body.idp_linked, body.has_password], [person.id, true, true])
    assert.ok((await auditActions(sluice, person.email)).includes('identity.linked'))
  })

  test('an address that is not verified never opens an account that has it', async () => {
    const person = await registerPerson(sluice, 'Mallory Target')
    for (const email_verified of [false, undefined]) {
      const { email_verified: _, ...unknown } = somebody({ email: person.email })
      provider.person = email_verified === undefined ? unknown : { ...unknown, email_verified }
      assert.deepEqual(await signIn(sluice), { error: 'email_not_verified' })
    }
    assert.equal((await me(sluice, person.access_token)).body.idp_linked, false)
  })

  test('a second identity with the same verified address is refused', async () => {
    await signIn(sluice)
    provider.person = somebody({ email: provider.person!.email! })
    assert.deepEqual(await signIn(sluice), { error: 'already_linked' })
  })

  test('without an address there is no account', async () => {
    const { email: _, email_verified: __, ...nameless } = somebody()
    provider.person = nameless
    assert.deepEqual(await signIn(sluice), { error: 'email_missing' })
  })

  test('a picture that is no web address is left out', async () => {
    provider.person = somebody({ picture: 'javascript:alert(1)' })
    assert.equal((await me(sluice, (await signIn(sluice)).access_token)).body.avatar_url, null)
  })

  test('an invitation given at the start is accepted on return', async () => {
    const owner = await registerPerson(sluice, 'Inviter')
    const token = 'an-invitation-token'
    await sluice.services.db.execute(sql`
      INSERT INTO invitations (organization_id, email, role, token_hash, expires_at)
      VALUES (${owner.organization_id}, 'new.colleague@example.com', 'member', sha256(${token}::bytea), now() + interval '1 day')`)
    const start = `${START}?invitation=${token}`
    const colleague = provider.person
    provider.person = somebody({ email: owner.email })
    const member = await me(sluice, (await signIn(sluice, undefined, start)).access_token)
    assert.deepEqual(
      [member.body.organization.id, member.body.role],
      [owner.organization_id, 'owner'],
      'is left unused',
    )
    provider.person = colleague
    const { body } = await me(sluice, (await signIn(sluice, undefined, start)).access_token)
    assert.deepEqual([body.organization.id, body.role], [owner.organization_id, 'member'])
    const email = provider.person!.email!
    provider.person = somebody()
    assert.deepEqual(await signIn(sluice, undefined, start), { error: 'invitation_invalid' })
    assert.equal((await auditActions(sluice, provider.person.email!)).length, 0)
    assert.ok((await auditActions(sluice, email)).includes('invitation.accepted'))
  })

  test('an invitation that is no token is refused', async () => {
    const answer = await sluice.call('GET', '/api/auth/idp?invitation=a%3Bb')
    assert.equal(answer.status, 400)
    assert.match(answer.body.detail, /invitation/)
  })
})

describe('with SIGNUP=invited', () => {
  test('only an invited address makes an account', async () => {
    const sluice = await startApp({ ...settings(), SIGNUP: 'invited' })
    assert.deepEqual(await signIn(sluice), { error: 'signup_closed' })
    const { db } = sluice.services
    const organization = await db.first<{ id: string }>(
      sql`INSERT INTO organizations (name, slug) VALUES ('Acme', 'acme-1') RETURNING id`,
    )
    await db.execute(sql`
      INSERT INTO invitations (organization_id, email, role, token_hash, expires_at)
      VALUES (${organization!.id}, ${provider.person!.email!.toLowerCase()}, 'member', 'x', now() + interval '1 day')`)
    assert.ok((await signIn(sluice)).access_token)
  })
})
