import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { registerPerson, startApp } from '../harness/app.ts'
import { startProgram } from '../harness/processes.ts'
import { environment, MAIN, runSluice } from '../harness/service.ts'

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
  const { code, stdout, stderr } = await runSluice(
    ['source', ...args],
    environment(folder, { ...env, XDG_CONFIG_HOME: folder }),
  ).ended
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
  assert.match(stderr, new RegExp(`^${failing}:22:9: error: ValueError: no luck \\(after 3 records of users\\)$`, 'm'))
  const missing = await sluice(['preview', failing])
  assert.equal(missing.code, 1)
  assert.match(missing.stderr, /: error: ConfigError: config does not fit TeamConfig: 'first' is missing/)
})

test('a refusal by the service is one sentence with the request id, and never shows the key', async () => {
  writeFileSync(file, source(''))
  const refused = await sluice(['push', file], { ...service, SLUICE_API_KEY: 'svc_live_wrong' })
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /^[^\n]+ \(status 401, request [\w-]+\)\. Set SLUICE_API_KEY to a valid key\.\n$/)
  assert.doesNotMatch(refused.stderr, /svc_live_wrong/)
  const closed = createServer()
  await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve))
  const nobody = `http://127.0.0.1:${(closed.address() as AddressInfo).port}`
  await new Promise((resolve) => closed.close(resolve))
  const gone = await sluice(['push', file], { ...service, SLUICE_URL: nobody })
  assert.equal(gone.code, 1)
  assert.ok(
    gone.stderr.startsWith(`${nobody} cannot be reached: the connection was refused. Check the address`),
    gone.stderr,
  )
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
  assert.match(stderr, /redirects to \/stolen, and the key is not sent there \(status 307, without a request id\)\. /)
})

test('a command that cannot be run as written exits with 2', async () => {
  for (const [args, env, message] of [
    [['push'], service, /^sluice source push needs FILE\. Usage: sluice source push FILE \[--json\] \[--name NAME\]/],
    [['push', path.join(folder, 'none.py')], service, /none\.py cannot be read: there is no such file/],
    [['push', file], { SLUICE_URL: url }, /^SLUICE_API_KEY is not set/],
    [
      ['preview', file, '--steam', 'x'],
      service,
      /^sluice source preview has no option --steam\. Did you mean --stream\?/,
    ],
    [['preview', file, '--stream'], service, /^sluice source preview --stream needs STREAM\./],
    [
      ['preview', file, '--max-records', 'all'],
      service,
      /^--max-records must be a whole number from 1 to 1000, not all/,
    ],
    [['pish', file], service, /^There is no command 'source pish'\. Did you mean source push\?/],
  ] as [string[], Record<string, string>, RegExp][]) {
    const { code, stdout, stderr } = await sluice(args, env)
    assert.deepEqual([code, stdout], [2, ''], stderr)
    assert.match(stderr.trim(), message)
  }
})

test('a new source is valid as it is written, and never replaces a file', async () => {
  const env = environment(folder, { ...service, XDG_CONFIG_HOME: folder })
  const start = (args: string[]) => startProgram(process.execPath, [MAIN, 'source', ...args], { cwd: folder, env })
  const made = await start(['new', 'my-shop']).ended
  assert.equal(made.stdout, 'my-shop.py was written. Try it with: sluice source preview my-shop.py --watch\n')
  const again = await start(['new', 'my-shop']).ended
  assert.deepEqual([again.code, again.stderr], [2, 'my-shop.py exists and was left as it is; choose another name.\n'])
  assert.equal((await start(['new', '../x']).ended).code, 2)
  const preview = await start(['preview', 'my-shop.py']).ended
  assert.deepEqual([preview.code, preview.stderr], [0, '2 records of items\n'], preview.stderr)
  const pushed = await start(['push', 'my-shop.py', '--json']).ended
  assert.deepEqual(JSON.parse(pushed.stdout), {
    source_name: 'my-shop',
    result: 'created',
    version: 1,
    streams: ['items'],
  })
})

test('a watched source is checked and read again at every save, whatever the last one did', async () => {
  const watched = path.join(folder, 'watched.py')
  const config = path.join(folder, 'config.json')
  writeFileSync(config, '{"first": 1}')
  writeFileSync(watched, source(''))
  const env = environment(folder, { ...service, XDG_CONFIG_HOME: folder })
  const args = [
    '-c',
    'exec "$@" 2>&1',
    'sh',
    process.execPath,
    MAIN,
    'source',
    'preview',
    watched,
    '--watch',
    '--config',
    config,
  ]
  const command = startProgram('sh', args, { env })
  after(() => command.child.kill('SIGKILL'))
  await command.said(/3 records of users\n[^\n]*Waiting for the next save/)
  writeFileSync(watched, `import os\n${source('')}`)
  await command.said(/watched\.py:1:1: error: import of 'os' is not allowed[\s\S]*Waiting for the next save/)
  // Editors replace files.
  writeFileSync(`${watched}.new`, source('raise ValueError("no luck")'))
  renameSync(`${watched}.new`, watched)
  await command.said(/watched\.py:22:9: error: ValueError: no luck \(after 3 records of users\)/)
  rmSync(watched)
  await command.said(/watched\.py cannot be read: there is no such file/)
  writeFileSync(watched, source('yield SourceRecord(id=9, data={})'))
  await command.said(/4 records of users/)
  command.child.kill('SIGINT')
  assert.equal((await command.ended).signal, 'SIGINT')
})

test('a manifest is pushed: created, left unchanged, and saved as a new version', async () => {
  const place = path.join(folder, 'source-shop')
  mkdirSync(place)
  const manifest = (path: string) =>
    JSON.stringify({
      version: '6.0.0',
      streams: [
        {
          name: 'orders',
          retriever: {
            requester: { url_base: 'https://example.com', path },
            record_selector: { extractor: { field_path: ['data'] } },
          },
          schema_loader: { type: 'InlineSchemaLoader', schema: { type: 'object' } },
        },
      ],
    })
  const file = path.join(place, 'manifest.yaml')
  const env = environment(folder, { ...service, XDG_CONFIG_HOME: folder })
  const push = (...args: string[]) => runSluice(['manifest', 'push', file, ...args], env).ended
  writeFileSync(file, manifest('/a'))
  const first = await push()
  assert.deepEqual([first.code, first.stdout], [0, 'created source-shop (streams: orders)\n'], first.stderr)
  assert.equal((await push()).stdout, 'source-shop already is this manifest (streams: orders)\n')
  writeFileSync(file, manifest('/b'))
  assert.deepEqual(JSON.parse((await push('--json')).stdout).version, 2)
  writeFileSync(file, '{"version": "6.0.0",\n "streams": [')
  const broken = await push()
  assert.deepEqual([broken.code, broken.stdout], [1, ''])
  assert.match(broken.stderr, /manifest\.yaml:\d+:\d+: error: /)
})
