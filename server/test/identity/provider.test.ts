import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { resetPassword } from '../../src/identity/accounts.ts'
import { SIGN_INS_PER_CLIENT } from '../../src/identity/provider.ts'
import { PASSWORD, registerPerson, startApp, type TestApp } from '../harness/app.ts'
import { addOrganization } from '../tenancy/world.ts'
import {
  auditActions,
  inviteSomebody,
  me,
  openBrowser,
  PUBLIC_URL,
  provider,
  START,
  settings,
  signIn,
  sluice,
  somebody,
} from './provider-setup.ts'

describe('signing in', () => {
  test('a client that begins too many sign-ins has to wait', async () => {
    const { db } = sluice.services
    await db.execute(sql`
      INSERT INTO login_attempts (key, attempts) VALUES ('idp 127.0.0.1', ${SIGN_INS_PER_CLIENT - 1})
      ON CONFLICT (key) DO UPDATE SET attempts = excluded.attempts`)
    assert.equal((await sluice.call('GET', START)).status, 302)
    const refused = await sluice.call('GET', START)
    assert.equal(refused.status, 429)
    assert.match(refused.body.detail, /^Too many sign-ins from your network; try again in 15 minutes$/)
    await db.execute(sql`DELETE FROM login_attempts`)
    assert.equal((await sluice.call('GET', START)).status, 302)
  })

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

  test('two concurrent first sign-ins create one account', async () => {
    const [one, two] = await Promise.all([signIn(sluice), signIn(sluice)])
    const ids = [await me(sluice, one.access_token), await me(sluice, two.access_token)].map((answer) => answer.body.id)
    assert.equal(ids[0], ids[1])
  })

  test('a verified address opens the account that has it and links the identity', async () => {
    const person = await registerPerson(sluice, 'Grace')
    provider.person = somebody({ email: person.email.toUpperCase() })
    const { body } = await me(sluice, (await signIn(sluice)).access_token)
    assert.deepEqual([body.id, body.idp_linked], [person.id, true])
    assert.ok((await auditActions(sluice, person.email)).includes('identity.linked'))
  })

  test('a password from before the provider verified the address is removed, and all sessions end', async () => {
    const squatter = await registerPerson(sluice, 'Squatter')
    const login = () => sluice.call('POST', '/api/auth/login', { body: { email: squatter.email, password: PASSWORD } })
    const second = (await login()).body
    const link = await openBrowser(sluice).request(`${PUBLIC_URL}/api/auth/link/idp`, {
      headers: { authorization: `Bearer ${second.access_token}` },
    })
    assert.equal(link.status, 200)
    provider.person = somebody({ email: squatter.email })
    const owner = await me(sluice, (await signIn(sluice)).access_token)
    assert.deepEqual([owner.body.id, owner.body.has_password], [squatter.id, false])
    for (const token of [squatter.access_token, second.access_token])
      assert.equal((await me(sluice, token)).status, 401)
    const refresh = await sluice.call('POST', '/api/auth/refresh', { body: { refresh_token: second.refresh_token } })
    assert.equal(refresh.status, 401)
    assert.equal((await login()).status, 401)
    const { db } = sluice.services
    assert.deepEqual(await db.query(sql`SELECT 1 FROM idp_states WHERE link_user_id = ${squatter.id}`), [])
    assert.ok((await auditActions(sluice, squatter.email)).includes('user.password_removed'))
  })

  test('an address cannot be taken by whoever registers it first and links an account of their own', async () => {
    const squatter = await registerPerson(sluice, 'Squatter')
    const browser = openBrowser(sluice)
    const begun = await browser.request(`${PUBLIC_URL}/api/auth/link/idp`, {
      headers: { authorization: `Bearer ${squatter.access_token}` },
    })
    const stranger = somebody()
    provider.person = stranger
    await browser.visit(JSON.parse(begun.body).redirect_url)
    assert.equal((await me(sluice, (await signIn(sluice)).access_token)).body.id, squatter.id)
    const owner = somebody({ email: squatter.email })
    provider.person = owner
    const { body } = await me(sluice, (await signIn(sluice)).access_token)
    assert.deepEqual([body.id, body.idp_linked, body.has_password], [squatter.id, true, false])
    assert.equal((await me(sluice, squatter.access_token)).status, 401)
    assert.ok((await auditActions(sluice, squatter.email)).includes('identity.unlinked'))
    provider.person = stranger
    assert.notEqual((await me(sluice, (await signIn(sluice)).access_token)).body.id, squatter.id)
    provider.person = owner
    assert.equal((await me(sluice, (await signIn(sluice)).access_token)).body.id, squatter.id)
    provider.person = somebody({ email: squatter.email })
    assert.deepEqual(await signIn(sluice), { error: 'already_linked' }, 'once proven, nobody else takes it over')
  })

  test('nor by an account of the provider that only claims the address', async () => {
    const claimed = somebody({ email_verified: false })
    provider.person = claimed
    const first = await me(sluice, (await signIn(sluice)).access_token)
    assert.equal(first.status, 200)
    provider.person = somebody({ email: claimed.email! })
    assert.equal((await me(sluice, (await signIn(sluice)).access_token)).body.id, first.body.id)
    provider.person = claimed
    assert.deepEqual(await signIn(sluice), { error: 'email_not_verified' })
  })

  test('an address that the provider verifies later is proven from then on', async () => {
    provider.person = somebody({ email_verified: false })
    const first = await me(sluice, (await signIn(sluice)).access_token)
    provider.person = { ...provider.person, email_verified: true }
    await signIn(sluice)
    provider.person = somebody({ email: provider.person.email! })
    assert.deepEqual(await signIn(sluice), { error: 'already_linked' })
    assert.equal(first.body.idp_linked, true)
  })

  test('a password that the operator resets shuts out an identity that proved nothing', async () => {
    const claimed = somebody({ email_verified: false })
    provider.person = claimed
    await signIn(sluice)
    const email = claimed.email!.toLowerCase()
    await resetPassword(sluice.services.db, email, PASSWORD)
    assert.deepEqual(await signIn(sluice), { error: 'email_not_verified' })
    assert.equal((await sluice.call('POST', '/api/auth/login', { body: { email, password: PASSWORD } })).status, 200)
  })

  test('a password that was set after the verification stays', async () => {
    await signIn(sluice)
    const email = provider.person!.email!.toLowerCase()
    await resetPassword(sluice.services.db, email, PASSWORD)
    const signedIn = await signIn(sluice)
    const unlinked = await sluice.call('DELETE', '/api/auth/unlink/idp', {
      as: { access_token: signedIn.access_token! },
    })
    assert.equal(unlinked.status, 200)
    assert.equal((await me(sluice, (await signIn(sluice)).access_token)).body.has_password, true)
    assert.equal((await sluice.call('POST', '/api/auth/login', { body: { email, password: PASSWORD } })).status, 200)
  })

  test('a person who links the provider while signed in keeps the password', async () => {
    const person = await registerPerson(sluice, 'Linking')
    const browser = openBrowser(sluice)
    const answer = await browser.request(`${PUBLIC_URL}/api/auth/link/idp`, {
      headers: { authorization: `Bearer ${person.access_token}` },
    })
    provider.person = somebody({ email: person.email })
    await browser.visit(JSON.parse(answer.body).redirect_url)
    const { body } = await me(sluice, (await signIn(sluice)).access_token)
    assert.deepEqual([body.id, body.idp_linked, body.has_password], [person.id, true, true])
    assert.equal((await me(sluice, person.access_token)).status, 200)
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

  test('a picture that is not a web address is ignored', async () => {
    provider.person = somebody({ picture: 'javascript:alert(1)' })
    assert.equal((await me(sluice, (await signIn(sluice)).access_token)).body.avatar_url, null)
  })

  test('an invitation comes back for the person to accept and is never accepted automatically', async () => {
    const stranger = await addOrganization(sluice)
    const token = await inviteSomebody(sluice, stranger)
    const known = somebody()
    provider.person = known
    await signIn(sluice)
    for (const person of [known, somebody(), somebody({ email_verified: false })]) {
      provider.person = person
      const { access_token, invitation } = await signIn(sluice, undefined, `${START}?invitation=${token}`)
      assert.equal(invitation, token)
      const { body } = await me(sluice, access_token)
      assert.notEqual(body.organization.id, stranger.organization_id)
      const mine = await sluice.call('GET', '/api/auth/organizations', { as: { access_token: access_token! } })
      assert.equal(mine.body.length, 1)
      assert.ok(!(await auditActions(sluice, person.email!)).includes('invitation.accepted'))
    }
    const { access_token, invitation } = await signIn(sluice, undefined, `${START}?invitation=${token}`)
    const accepted = await sluice.call('POST', '/api/users/invitations/accept', {
      as: { access_token: access_token! },
      body: { token: invitation },
    })
    assert.deepEqual([accepted.status, accepted.body.organization.id], [200, stranger.organization_id])
  })

  test('with open sign-up an invalid invitation does not prevent the sign-in', async () => {
    const fragment = await signIn(sluice, undefined, `${START}?invitation=unknown`)
    assert.ok(fragment.access_token)
    assert.equal(fragment.invitation, 'unknown')
  })

  test('a sign-in without an invitation returns none', async () => {
    assert.equal((await signIn(sluice)).invitation, undefined)
  })

  test('an invitation that is not a token is refused', async () => {
    const answer = await sluice.call('GET', '/api/auth/idp?invitation=a%3Bb')
    assert.equal(answer.status, 400)
    assert.match(answer.body.detail, /invitation/)
  })
})

describe('with SIGNUP=invited', () => {
  const begin = (sluice: TestApp, token?: string) =>
    signIn(sluice, undefined, token === undefined ? START : `${START}?invitation=${token}`)

  test('a new account needs an invitation token, sent to any address; an existing account needs none', async () => {
    const sluice = await startApp({ ...settings(), SIGNUP: 'invited' })
    const host = await addOrganization(sluice)
    const token = await inviteSomebody(sluice, host, provider.person!.email!)
    assert.deepEqual(await begin(sluice), { error: 'signup_closed' })
    assert.deepEqual(await begin(sluice, 'unknown'), { error: 'invitation_invalid' })
    const fragment = await begin(sluice, token)
    assert.equal(fragment.invitation, token)
    assert.notEqual((await me(sluice, fragment.access_token)).body.organization.id, host.organization_id)
    assert.ok((await begin(sluice)).access_token)
    assert.ok((await begin(sluice, 'unknown')).access_token)
  })

  test('an invitation creates one account, at the provider or with a password', async () => {
    const sluice = await startApp({ ...settings(), SIGNUP: 'invited' })
    const host = await addOrganization(sluice)
    const token = await inviteSomebody(sluice, host)
    const { access_token } = await begin(sluice, token)
    provider.person = somebody()
    assert.deepEqual(await begin(sluice, token), { error: 'invitation_invalid' })
    const body = { email: 'b@example.com', password: PASSWORD, name: 'B', invitation_token: token }
    const register = await sluice.call('POST', '/api/auth/register', { body })
    assert.match(
      `${register.status} ${register.body.detail}`,
      /^400 invitation_token: an account was already created with/,
    )
    const accept = () =>
      sluice.call('POST', '/api/users/invitations/accept', { as: { access_token: access_token! }, body: { token } })
    assert.equal((await accept()).status, 200)
    assert.deepEqual(await begin(sluice, token), { error: 'invitation_invalid' })
    const rows = await sluice.services.db.query(sql`SELECT 1 FROM users WHERE name = 'Ada'`)
    assert.equal(rows.length, 1, 'a refused sign-in leaves no account')
  })
})
