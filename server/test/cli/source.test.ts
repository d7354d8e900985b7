import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { registerPerson, startApp } from '../harness/app.ts'
import { environment, runSluice } from '../harness/service.ts'

const app = await startApp()
const url = await app.app.listen({ host: '127.0.0.1', port: 0 })
const person = await registerPerson(app)
const made = await app.call('POST', '/api/api-keys', { as: person, body: { name: 'laptop', expires_in_days: null } })
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-source-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const file = path.join(folder, 'team.py')
const source = (body: string) => `from svc.source.base import AbstractSource
from svc.source.models import SourceConfig, SourceRecord


class TeamConfig(SourceConfig):
    first: int


class Team(AbstractSource):
    name = "team"

    def get_streams(self) -> list:
        return ["users"]

    def check_connection(self) -> bool:
        return True

    def get_records(self, stream: str) -> list:
        self.log.info("reading %s", stream)
        for n in range(self.config.first, self.config.first + 3):
            yield SourceRecord(id=n, data={"token": self.authentication.params.get("token")})
${body.replaceAll(/^/gm, '        ')}
`

const service = { SLUICE_URL: url, SLUICE_API_KEY: made.body.key }
async function sluice(args: string[], env: Record<string, string> = service) {
  const { code, stdout, stderr } = await runSluice(['source', ...args], environment(folder, env)).ended
  return { code, stdout, stderr }
}

test('a source is pushed: created, left unchanged, and saved as a new version', async () => {
  writeFileSync(file, source(''))
  const streams = '(streams: users)'
  assert.deepEqual(await sluice(['push', file]), { code: 0, stdout: `created team ${streams}\n`, stderr: '' })
  assert.deepEqual((await sluice(['push', file])).stdout, `team already has this code ${streams}\n`)
  writeFileSync(file, source('self.log.info("done")'))
  assert.deepEqual((await sluice(['push', file, '--name', 'Our team'])).stdout, `saved team as version 2 ${streams}\n`)
  const { body } = await app.call('GET', '/api/custom-sources', { as: person })
  assert.deepEqual(
    body.map(({ name, source_name }: { name: string; source_name: string }) => [name, source_name]),
    [['Our team', 'team']],
  )
})

test('an invalid source is not saved, and each finding has file, line and column', async () => {
  const broken = path.join(folder, 'broken.py')
  writeFileSync(broken, `import os\n${source('yield self.htp')}`)
  const { code, stdout, stderr } = await sluice(['push', broken])
  assert.deepEqual([code, stdout], [1, ''])
  assert.match(stderr, new RegExp(`^${broken}:1:1: error: import of 'os' is not allowed`, 'm'))
  assert.match(stderr, new RegExp(`^${broken}:23:15: error: 'self.htp' .*did you mean 'self.http'\\?$`, 'm'))
})

test('a preview prints records, with settings and credentials from files', async () => {
  writeFileSync(file, source(''))
  const config = path.join(folder, 'config.json')
  const authentication = path.join(folder, 'authentication.json')
  writeFileSync(config, '{"first": 7}')
  writeFileSync(authentication, '{"type": "bearer", "params": {"token": "t0ken"}}')
  const files = ['--config', config, `--authentication=${authentication}`]
  const { code, stdout, stderr } = await sluice(['preview', file, '--stream', 'users', '--max-records', '2', ...files])
  assert.equal(code, 0, stderr)
  assert.equal(stdout, '{"id":"7","data":{"token":"t0ken"}}\n{"id":"8","data":{"token":"t0ken"}}\n')
  assert.equal(stderr, 'INFO reading users\n2 records of users\n')
})

test('a failed preview names the line in the file, after the records that came before', async () => {
  const failing = path.join(folder, 'failing.py')
  writeFileSync(failing, source('raise ValueError("no luck")'))
  const config = path.join(folder, 'config.json')
  writeFileSync(config, '{"first": 1}')
  const { code, stdout, stderr } = await sluice(['preview', failing, '--config', config])
  assert.deepEqual([code, stdout.split('\n').length - 1], [1, 3])
  assert.match(stderr, new RegExp(`^${failing}:22: error: ValueError: no luck \\(after 3 records of users\\)$`, 'm'))
  const missing = await sluice(['preview', failing])
  assert.equal(missing.code, 1)
  assert.match(missing.stderr, /: error: ConfigError: config does not fit TeamConfig: 'first' is missing/)
})

test('a refusal by the service is one sentence with the request id, and never shows the key', async () => {
  writeFileSync(file, source(''))
  const refused = await sluice(['push', file], { ...service, SLUICE_API_KEY: 'svc_live_wrong' })
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /^[^\n]+ \(status 401, request [\w-]+\)\n$/)
  assert.doesNotMatch(refused.stderr, /svc_live_wrong/)
  const closed = createServer()
  await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve))
  const nobody = `http://127.0.0.1:${(closed.address() as AddressInfo).port}`
  await new Promise((resolve) => closed.close(resolve))
  const gone = await sluice(['push', file], { ...service, SLUICE_URL: nobody })
  assert.equal(gone.code, 1)
  const sentence = `${nobody} cannot be reached: the connection was refused. Set SLUICE_URL to a running service.\n`
  assert.equal(gone.stderr, sentence)
})

test('the key does not follow a redirect, and another kind of server is recognised', async () => {
  let followed = 0
  const other = createServer((request, response) => {
    if (request.url === '/stolen') followed++
    response.writeHead(307, { location: '/stolen' }).end('<html>')
  })
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  const elsewhere = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
  const { code, stderr } = await sluice(['push', file], { ...service, SLUICE_URL: elsewhere })
  other.close()
  assert.deepEqual([code, followed], [1, 0])
  assert.match(stderr, /sent an unexpected answer \(status 307, without a request id\)\n$/)
})

test('a command that cannot be run as written exits with 2', async () => {
  for (const [args, env, message] of [
    [['push'], service, /^sluice source push needs FILE\. Usage: sluice source push FILE \[--name NAME\]$/],
    [['push', path.join(folder, 'none.py')], service, /none\.py cannot be read: ENOENT/],
    [['push', file], { SLUICE_URL: url }, /^SLUICE_API_KEY is not set/],
    [
      ['preview', file, '--steam', 'x'],
      service,
      /^sluice source preview has no option --steam\. Did you mean --stream\?/,
    ],
    [['preview', file, '--stream'], service, /^sluice source preview --stream needs STREAM\./],
    [['preview', file, '--max-records', 'all'], service, /^--max-records must be a whole number, not all/],
    [['pish', file], service, /^There is no command 'source pish'\. Did you mean source push\?/],
  ] as [string[], Record<string, string>, RegExp][]) {
    const { code, stdout, stderr } = await sluice(args, env)
    assert.deepEqual([code, stdout], [2, ''], stderr)
    assert.match(stderr.trim(), message)
  }
})
