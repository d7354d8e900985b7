/**
 * `npm start`, killed with SIGKILL five times right after it acknowledged a write. After each restart it has every write
 * that it ever acknowledged, and no process of the killed one is left.
 */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { after, test } from 'node:test'
import { findProcesses, findTree, isAlive, startProgram, waitUntilGone } from '../harness/processes.ts'
import { environment, makeDataDir, root, type Service, whenReady } from '../harness/service.ts'

const KILLS = 5
const folder = makeDataDir()
let current: Service | undefined
after(() => {
  if (current) killGroup(current)
  rmSync(folder, { recursive: true, force: true })
})

const start = () => whenReady(startProgram('npm', ['start'], { cwd: root, env: environment(folder), detached: true }))
const killGroup = ({ child }: Service) => process.kill(-child.pid!, 'SIGKILL')

async function send(service: Service, method: string, path: string, token: string | null, body?: object) {
  const response = await fetch(service.url + path, {
    method,
    headers: {
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body && { 'content-type': 'application/json' }),
      connection: 'close',
    },
    ...(body && { body: JSON.stringify(body) }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever came back
  return { status: response.status, body: (await response.json()) as any }
}

test('five kills lose nothing that was acknowledged and leave nothing behind', { timeout: 600_000 }, async () => {
  const written: { token: string; name: string }[] = []
  for (let round = 0; round <= KILLS; round++) {
    const service = await start()
    current = service
    for (const { token, name } of written) {
      const { status, body } = await send(service, 'GET', '/api/auth/me', token)
      assert.deepEqual([status, body.organization?.name], [200, name], `after ${round} kills`)
    }
    const account = {
      email: `kill.${round}@example.com`,
      password: 'Correct-horse-1',
      name: 'K',
      organization_name: 'K',
    }
    const registered = await send(service, 'POST', '/api/auth/register', null, account)
    assert.equal(registered.status, 201, JSON.stringify(registered.body))
    const token = registered.body.access_token as string
    const name = `Written before kill ${round}`
    const tree = findTree(service.child.pid!)
    assert.ok(tree.length >= 3, 'npm, the service and its database')
    assert.equal((await send(service, 'PUT', '/api/organization', token, { name })).status, 200)
    killGroup(service)
    written.push({ token, name })
    await service.ended
    current = undefined
    const left = await waitUntilGone(() => [...tree.filter(isAlive), ...findProcesses(folder)], 10_000)
    assert.deepEqual(left, [], `after kill ${round + 1}`)
  }
})
