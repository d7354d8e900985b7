/** Which service is called, with which key, and who can read that key. */
import assert from 'node:assert/strict'
import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { registerPerson, startApp } from '../harness/app.ts'
import { makeClient, startOther } from '../harness/client.ts'

const app = await startApp()
const url = await app.app.listen({ host: '127.0.0.1', port: 0 })
const person = await registerPerson(app)
const makeKey = async () =>
  (await app.call('POST', '/api/api-keys', { as: person, body: { name: 'laptop', expires_in_days: null } })).body.key
const key: string = await makeKey()

test('a key from standard input is checked, and kept for its owner alone', async () => {
  const client = makeClient()
  const { code, stdout, stderr } = await client.run(['login', `${url}/`], {}, `${key}\n`)
  assert.deepEqual([code, stderr], [0, ''])
  assert.equal(stdout, `Signed in to ${url} as Person, owner of Person Ltd (profile default).\n`)
  assert.equal(statSync(client.profiles).mode & 0o777, 0o600)
  assert.equal(statSync(path.dirname(client.profiles)).mode & 0o777, 0o700)
  const who = await client.run(['whoami', '--json'])
  const { email, profile, organization } = JSON.parse(who.stdout)
  assert.deepEqual([email, profile, organization.name], [person.email, 'default', 'Person Ltd'])
})

test('a key that the service refuses, or none, is not kept', async () => {
  const client = makeClient()
  const refused = await client.run(['login', url], {}, 'svc_live_wrong\n')
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /^[^\n]+ \(status 401, request [\w-]+\)\. Sign in again with sluice login/)
  assert.doesNotMatch(refused.stderr + refused.stdout, /svc_live_wrong/)
  for (const input of ['', '\n', undefined]) {
    const none = await client.run(['login', url], {}, input)
    assert.equal(none.code, 2)
    assert.match(none.stderr, /^No key was given, so nothing was saved/)
  }
  assert.match((await client.run(['login', url], {}, 'two words\n')).stderr, /characters that no key has/)
  assert.match((await client.run(['whoami'])).stderr, /^You are not signed in; run sluice login URL/)
  for (const wrong of ['ftp://host', 'localhost', 'http://user:secret@host', 'http://host?x=1']) {
    const { code, stderr } = await client.run(['login', wrong], {}, key)
    assert.equal(code, 2, wrong)
    assert.doesNotMatch(stderr, /secret/)
  }
})

test('on a terminal the key is asked for with the page that makes one, and is not shown', async () => {
  const client = makeClient()
  const command = client.onTerminal(['login', url])
  await command.said(/API key: /)
  command.child.stdin!.write(`${key}\r`)
  const { code, stdout } = await command.ended
  assert.equal(code, 0, stdout)
  assert.ok(stdout.includes(`Create an API key at ${url}/settings/api-keys`))
  assert.ok(!stdout.includes(key))
  assert.match(stdout, /Signed in to/)
})

test('Ctrl+C at the question ends with 130, and nothing is kept', async () => {
  const client = makeClient()
  const command = client.onTerminal(['login', url])
  await command.said(/API key: /)
  command.child.stdin!.write('\x03')
  assert.equal((await command.ended).code, 130)
  assert.match((await client.run(['whoami'])).stderr, /^You are not signed in/)
})

test('profiles are independent: the last one signed in is used unless another is named', async () => {
  const client = makeClient()
  const second: string = await makeKey()
  await client.run(['login', url], {}, key)
  await client.run(['login', url, '--profile', 'test'], {}, second)
  const profile = async (args: string[], env = {}) =>
    JSON.parse((await client.run(['whoami', '--json', ...args], env)).stdout).profile
  assert.equal(await profile([]), 'test')
  assert.equal(await profile(['--profile', 'default']), 'default')
  assert.equal(await profile([], { SLUICE_PROFILE: 'default' }), 'default')
  assert.match(
    (await client.run(['whoami', '--profile', 'tset'])).stderr,
    /no profile 'tset'; there is default, test\./,
  )
  assert.match((await client.run(['login', url, '--profile', '../x'], {}, key)).stderr, /^A profile has a name of/)
  const left = await client.run(['logout'])
  assert.match(
    left.stdout,
    /profile test\) was removed.*\n.*revoked at .*\/settings\/api-keys\.\nThe profile default is now used/,
  )
  assert.ok(!readFileSync(client.profiles, 'utf8').includes(second))
  assert.equal(await profile([]), 'default')
  await client.run(['logout'])
  assert.equal((await client.run(['logout'])).code, 2)
})

test('the environment wins, and a key is never sent to the address of another', async () => {
  const client = makeClient()
  const seen: unknown[] = []
  const other = await startOther((request, response) => {
    seen.push(request.headers['x-api-key'])
    response.writeHead(404).end()
  })
  await client.run(['login', url], {}, key)
  const both = await client.run(['whoami', '--json'], { SLUICE_URL: url, SLUICE_API_KEY: await makeKey() })
  assert.equal(JSON.parse(both.stdout).profile, null)
  const mixed = await client.run(['whoami'], { SLUICE_URL: other.url })
  assert.equal(mixed.code, 2)
  assert.match(mixed.stderr, /^SLUICE_API_KEY is not set, and no profile is for /)
  const named = await client.run(['whoami', '--profile', 'default'], { SLUICE_URL: other.url })
  assert.match(named.stderr, /but the profile 'default' is for /)
  const unclear = await client.run(['whoami', '--profile', 'default'], { SLUICE_API_KEY: 'k' })
  assert.match(unclear.stderr, /^SLUICE_API_KEY is set and wins over profiles/)
  other.close()
  assert.deepEqual(seen, [])
})

test('a file of keys that others may read is refused, and one that is damaged says what to do', async () => {
  const client = makeClient()
  await client.run(['login', url], {}, key)
  chmodSync(client.profiles, 0o644)
  const open = await client.run(['whoami'])
  assert.equal(open.code, 1)
  assert.match(open.stderr, /others may read or write it; run chmod 600 /)
  chmodSync(client.profiles, 0o600)
  for (const text of ['', '{', '{"profiles":{"default":{"url":1}}}', '[]']) {
    writeFileSync(client.profiles, text)
    const { code, stderr } = await client.run(['whoami'])
    assert.deepEqual([code, stderr.includes('delete it, and sign in again')], [1, true], text)
  }
})
