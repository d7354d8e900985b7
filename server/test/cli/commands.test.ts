import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { environment, makeDataDir, root, runSluice } from '../harness/service.ts'

const run = promisify(execFile)
const folder = makeDataDir()
after(() => rmSync(folder, { recursive: true, force: true }))
const sluice = (args: string[], env: Record<string, string> = {}) => runSluice(args, environment(folder, env)).ended

test('--help lists each command with one line', async () => {
  const { code, stdout } = await sluice(['--help'])
  assert.equal(code, 0)
  for (const command of [
    'start',
    'api',
    'worker',
    'scheduler',
    'config',
    'migrate',
    'backup DEST',
    'restore SRC',
    'restored',
    'doctor',
    'admin organizations',
    'admin reset-password EMAIL',
  ])
    assert.match(stdout, new RegExp(`^  ${command} +\\S`, 'm'))
})

test('the launcher switches to Node 24 if the node on the path is an old one', async () => {
  const fakes = mkdtempSync(path.join(tmpdir(), 'sluice-old-node-'))
  after(() => rmSync(fakes, { recursive: true, force: true }))
  // An old node: it reports version 12 and only supports the syntax of its time.
  const pretend = path.join(fakes, 'pretend.cjs')
  writeFileSync(pretend, `Object.defineProperty(process.versions, 'node', { value: '12.22.0' })\n`)
  const node = path.join(fakes, 'node')
  writeFileSync(node, `#!/bin/sh\nexec "${process.execPath}" --require "${pretend}" "$@"\n`)
  chmodSync(node, 0o755)
  const bin = path.join(root, 'server/bin/sluice.cjs')
  const { stdout } = await run(bin, ['--help'], { env: { PATH: `${fakes}:/usr/bin:/bin` } })
  assert.match(stdout, /^Usage: sluice <command>$/m)
  const version = await run(bin, ['--version'], { env: { PATH: `${fakes}:/usr/bin:/bin` } })
  assert.match(version.stdout, /^\d+\.\d+\.\d+\n$/)
})

test('a command that ends soon does not start the node on the path, if npm has installed one', async () => {
  const fakes = mkdtempSync(path.join(tmpdir(), 'sluice-no-node-'))
  after(() => rmSync(fakes, { recursive: true, force: true }))
  writeFileSync(path.join(fakes, 'node'), '#!/bin/sh\nexit 9\n', { mode: 0o755 })
  const link = path.join(fakes, 'sluice')
  symlinkSync(path.join(root, 'server/bin/sluice'), link)
  const env = { PATH: `${fakes}:/usr/bin:/bin` }
  assert.match((await run(link, ['whoami', '--help'], { env })).stdout, /^sluice whoami /)
  await assert.rejects(run(link, ['worker', '--help'], { env }), { code: 9 })
})

test('anything unknown is refused with the nearest known word, and exit code 2', async () => {
  const refused: [string[], RegExp][] = [
    [['strat'], /^There is no command 'strat'\. Did you mean start\? See sluice --help\.$/],
    [
      ['constructor'],
      /^There is no command 'constructor'\. There is login, whoami, logout, .*, start, api, worker, .*\. See sluice --help\.$/,
    ],
    [['--verison'], /^sluice has no option --verison\. Did you mean --version\? /],
    [
      ['start', '--port=80'],
      /^sluice start has no option --port\. Settings are environment variables: PORT=… sluice start/,
    ],
    [
      ['worker', '--hepl'],
      /^sluice worker has no option --hepl\. Did you mean --help\? Usage: sluice worker \[--once\] \[--class CLASS\]$/,
    ],
    [['worker', '--class', 'large'], /^sluice worker --class needs --once: /],
    [['worker', '--once', '--class', 'large'], /^There is no class 'large': POD_CLASSES is not set\.$/],
    [['migrate', 'now'], /^sluice migrate takes no argument 'now'\. Usage: sluice migrate$/],
    [
      ['admin'],
      /^sluice admin needs to know what to do: admin organizations, .*admin reset-password\. See sluice --help\.$/,
    ],
    [['admin', 'reset-pasword'], /^There is no command 'admin reset-pasword'\. Did you mean admin reset-password\? /],
    [
      ['admin', 'reset-password'],
      /^sluice admin reset-password needs EMAIL\. Usage: sluice admin reset-password EMAIL$/,
    ],
    [['keys', 'rotate', 'all'], /^sluice keys rotate takes no argument 'all'\. /],
    [['cell', 'run'], /^sluice cell run needs FILE\. /],
    [[], /^Sluice moves data: /],
  ]
  for (const [args, expected] of refused) {
    const { code, stdout, stderr } = await sluice(args)
    assert.equal(code, 2, args.join(' '))
    assert.equal(stdout, '', args.join(' '))
    assert.match(stderr.trim(), expected)
  }
})

test('a folder for temporary files that does not exist is reported in one sentence', async () => {
  for (const command of ['start', 'worker']) {
    const { code, stderr } = await sluice([command], { TMPDIR: `${folder}/missing` })
    assert.equal(code, 1)
    assert.equal(
      stderr,
      `The folder for temporary files, ${folder}/missing, cannot be used (ENOENT); create it, or set TMPDIR to a folder that this user may write to.\n`,
    )
  }
})

test('a command with --help does nothing else', async () => {
  const { code, stdout } = await sluice(['admin', 'reset-password', '--help'])
  assert.equal(code, 0)
  assert.match(stdout, /^sluice admin reset-password EMAIL: set a new password/)
})

test('--help after the first of two words lists the commands that begin with it', async () => {
  const { code, stdout } = await sluice(['admin', '--help'])
  assert.equal(code, 0)
  assert.match(stdout, /^Usage: sluice admin <command>$/m)
  assert.deepEqual(
    [...stdout.matchAll(/^ {2}(\w+)/gm)].map(([, word]) => word),
    Array(5).fill('admin'),
  )
})

test('without a given password nothing is changed', async () => {
  for (const input of [undefined, '', '\n', '  \nCorrect-horse-1\n']) {
    const command = runSluice(['admin', 'reset-password', 'a@example.com'], environment(folder), input)
    const { code, stderr } = await command.ended
    assert.equal(code, 2)
    assert.equal(
      stderr,
      'No password was given, so nothing was changed; type it, or send it to standard input.\n',
      JSON.stringify(input),
    )
  }
})

test('cell run gives a source its settings and credentials, which come from files', async () => {
  const put = (name: string, text: string) => {
    const file = path.join(folder, name)
    writeFileSync(file, text)
    return file
  }
  const file = put(
    'shop.py',
    `from svc.source.base import AbstractSource
from svc.source.models import SourceConfig, SourceRecord


class ShopConfig(SourceConfig):
    pages: int


class Shop(AbstractSource):
    def get_streams(self):
        return ["orders"]

    def check_connection(self):
        return True

    def get_records(self, stream):
        yield SourceRecord(id=1, data={"pages": self.config.pages, "token": len(self.authentication.params["token"])})
`,
  )
  const config = put('config.json', '{"pages": 3}')
  const credentials = put('credentials.json', '{"type": "bearer", "params": {"token": "12345"}}')
  const run = await sluice(['cell', 'run', file, '--config', config, '--authentication', credentials])
  assert.deepEqual([run.code, run.stdout], [0, '{"_record_id":"1","pages":3,"token":5}\n'], run.stderr)
  const without = await sluice(['cell', 'run', file])
  assert.equal(without.code, 1)
  assert.match(without.stderr, /config does not fit ShopConfig: 'pages' is missing/)
  const wrong = await sluice(['cell', 'run', file, '--authentication', put('wrong.json', '{"token": "x"}')])
  assert.equal(wrong.code, 2)
  assert.match(wrong.stderr, /wrong\.json\.token: unknown field; the known fields are type, params/)
})

test('config prints every setting, secrets masked', async () => {
  const { code, stdout } = await sluice(['config'], { METRICS_TOKEN: 'a-secret-token' })
  assert.equal(code, 0)
  assert.match(stdout, /^PORT +0$/m)
  assert.match(stdout, /^METRICS_TOKEN +\*{8}$/m)
  assert.match(stdout, /^SIGNUP +open {2}\(default\)$/m)
  assert.match(stdout, /^EGRESS_ALLOW +\(not set\) {2}\(default\)$/m)
  assert.ok(!stdout.includes('a-secret-token'))
})

test('invalid settings are reported at once, without a stack', async () => {
  const { code, stderr } = await sluice(['start'], { PORT: 'x', SIGNUP: 'y' })
  assert.equal(code, 1)
  assert.match(stderr, /^The configuration has 2 problems:\n {2}- PORT: .*\n {2}- SIGNUP: .*\n$/)
})

test('a missing data folder or temporary folder is reported in one sentence', async () => {
  const file = path.join(folder, 'a-file')
  writeFileSync(file, '')
  const wrong: [Record<string, string>, RegExp][] = [
    [
      { DATA_DIR: path.join(file, 'data') },
      /^The data folder \S+ cannot be created or written to \(ENOTDIR\); set DATA_DIR/,
    ],
    [
      { DATA_DIR: '/proc/nowhere/data' },
      /^The data folder \S+ cannot be created or written to \(ENOENT\); set DATA_DIR/,
    ],
    [
      { TMPDIR: path.join(folder, 'nowhere') },
      /^The folder for temporary files, \S+, cannot be used \(ENOENT\); create it, or/,
    ],
  ]
  for (const [env, expected] of wrong) {
    const { code, stdout, stderr } = await sluice(['start'], env)
    assert.equal(code, 1)
    assert.equal(stderr.trim().split('\n').length, 1, stderr + stdout)
    assert.match(stderr, expected)
  }
})

test('an unreachable database is reported in one sentence without its password', async () => {
  const { code, stderr } = await sluice(['migrate'], {
    DATABASE_URL: 'postgres://user:hunter2@127.0.0.1:1/sluice',
    JWT_SECRET_KEY: 'x'.repeat(32),
    ENCRYPTION_KEY: 'x'.repeat(32),
  })
  assert.equal(code, 1)
  assert.match(stderr, /^The database of DATABASE_URL cannot be used: .*ECONNREFUSED.*\. Check the address/)
  assert.equal(stderr.trim().split('\n').length, 1)
  assert.ok(!stderr.includes('hunter2'))
})

test('migrate brings an empty data folder to the newest schema and exits', async () => {
  const { code, stdout } = await sluice(['migrate'])
  assert.equal(code, 0)
  assert.match(stdout, /The database schema is up to date/)
})

test('restored gives the installation a new id each time, and numbers that no run had', async () => {
  const ids = []
  for (let time = 1; time <= 2; time++) {
    const { code, stdout, stderr } = await sluice(['restored'])
    assert.equal(code, 0, stderr)
    assert.match(stdout, /^Run numbers now start above .*, and 0 unfinished runs start another attempt\.$/m)
    ids.push(/^This installation is now (\S{36})\.$/m.exec(stdout)?.[1])
  }
  assert.notEqual(ids[0], ids[1])
  const elsewhere = await sluice(['restored'], { DATA_DIR: `${folder}/mistyped` })
  assert.equal(elsewhere.code, 2)
  assert.match(
    elsewhere.stderr,
    /^There is no database in .*mistyped; set DATA_DIR to the folder that was restored\.$/m,
  )
  const help = await sluice(['restored', '--help'])
  assert.match(help.stdout, /^sluice restored: run once after the database was restored from a backup/)
})
