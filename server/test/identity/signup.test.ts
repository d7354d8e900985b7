import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { PASSWORD, startApp, type TestApp } from '../harness/app.ts'
import { addOrganization, tokenOf } from '../tenancy/world.ts'

const [invited, open] = [await startApp({ SIGNUP: 'invited' }), await startApp()]

const freshEmail = () => `${randomUUID()}@example.com`

const register = (app: TestApp, body: object, email = freshEmail()) =>
  app.call('POST', '/api/auth/register', { body: { email, password: PASSWORD, name: 'Ada', ...body } })

async function invite(app: TestApp, role = 'member') {
  const host = await addOrganization(app)
  const answer = await app.call('POST', '/api/users/invite', { as: host, body: { email: freshEmail(), role } })
  assert.equal(answer.status, 201, answer.text)
  return { host, id: answer.body.id as string, token: tokenOf(answer.body.invite_url) }
}

const countOf = async (app: TestApp, table: 'users' | 'organizations'): Promise<number> => {
  const statement = table === 'users' ? sql`SELECT 1 FROM users` : sql`SELECT 1 FROM organizations`
  return (await app.services.db.query(statement)).length
}

for (const [name, app] of [
  ['invited', invited],
  ['open', open],
] as const)
  describe(`registering with an invitation, SIGNUP=${name}`, () => {
    test('joins the organization that sent it, with the invited role, and creates no other', async () => {
      const { host, token } = await invite(app, 'admin')
      const before = await countOf(app, 'organizations')
      const email = freshEmail()
      const { status, body } = await register(app, { invitation_token: token, organization_name: 'Ignored' }, email)
      assert.equal(status, 201)
      assert.deepEqual([body.organization.id, body.user.role], [host.organization_id, 'admin'])
      assert.equal((await app.call('GET', '/api/auth/me', { as: body })).body.role, 'admin')
      assert.equal((await app.call('GET', '/api/auth/organizations', { as: body })).body.length, 1)
      assert.equal(await countOf(app, 'organizations'), before)
      const login = await app.call('POST', '/api/auth/login', { body: { email, password: PASSWORD } })
      assert.equal(login.body.organization.id, host.organization_id)
    })

    test('uses the invitation', async () => {
      const { host, token } = await invite(app)
      assert.equal((await register(app, { invitation_token: token })).status, 201)
      const again = await register(app, { invitation_token: token })
      assert.deepEqual(
        [again.status, again.body.detail],
        [400, 'invitation_token: this invitation was used; ask for a new one'],
      )
      const pending = await app.call('GET', '/api/users/invitations', { as: host })
      assert.deepEqual(pending.body, [])
    })

    test('one of two concurrent registrations with one invitation succeeds', async () => {
      const { token } = await invite(app)
      const answers = await Promise.all([1, 2].map(() => register(app, { invitation_token: token })))
      assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 400])
    })

    test('an unknown invitation is 404, an expired or cancelled one 400, and no account is made', async () => {
      const [late, cancelled] = [await invite(app), await invite(app)]
      await app.services.db.execute(sql`UPDATE invitations SET expires_at = now() WHERE id = ${late.id}`)
      await app.call('DELETE', `/api/users/invitations/${cancelled.id}`, { as: cancelled.host })
      const before = await countOf(app, 'users')
      assert.equal((await register(app, { invitation_token: 'unknown' })).status, 404)
      const expired = await register(app, { invitation_token: late.token })
      assert.match(`${expired.status} ${expired.body.detail}`, /^400 invitation_token: this invitation has expired/)
      assert.equal((await register(app, { invitation_token: cancelled.token })).status, 400)
      assert.equal((await register(app, { invitation_token: '' })).status, 400)
      assert.equal(await countOf(app, 'users'), before)
    })

    test('an address that has an account is 409 and leaves the invitation open', async () => {
      const { token } = await invite(app)
      const email = freshEmail()
      assert.equal((await register(app, { invitation_token: (await invite(app)).token }, email)).status, 201)
      assert.equal((await register(app, { invitation_token: token }, email)).status, 409)
      assert.equal((await register(app, { invitation_token: token })).status, 201)
    })
  })

test('with SIGNUP=invited nobody registers without an invitation, not even an invited address', async () => {
  const { host } = await invite(invited)
  const email = freshEmail()
  await invited.call('POST', '/api/users/invite', { as: host, body: { email, role: 'member' } })
  const refused = await register(invited, { organization_name: 'Mine' }, email)
  assert.equal(refused.status, 403)
  assert.match(refused.body.detail, /by invitation only/)
})

test('without an invitation the name of the organization is required', async () => {
  const answer = await register(open, {})
  assert.match(`${answer.status} ${answer.body.detail}`, /^400 organization_name: this field is required/)
})
