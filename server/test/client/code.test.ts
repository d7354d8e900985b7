/** `sluice export`, `plan` and `apply` as people run them, against a service that listens. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { type Person, startApp } from '../harness/app.ts'
import { startProgram } from '../harness/processes.ts'
import { MAIN } from '../harness/service.ts'
import { addOrganization } from '../tenancy/world.ts'

const app = await startApp()
const url = await app.app.listen({ host: '127.0.0.1', port: 0 })
const root = mkdtempSync(path.join(tmpdir(), 'sluice-code-'))
after(() => rmSync(root, { recursive: true, force: true }))

async function keyOf(person: Person): Promise<string> {
  const answer = await app.call('POST', '/api/api-keys', { as: person, body: { name: 'cli' } })
  return answer.body.key
}

async function sluice(key: string, args: string[], env: Record<string, string> = {}) {
  // Their sources are nowhere.
  const more = ['plan', 'apply'].includes(args[0]!) ? ['--no-schemas'] : []
  const started = startProgram(process.execPath, [MAIN, ...args, ...more], {
    cwd: root,
    env: { PATH: process.env.PATH ?? '', HOME: root, SLUICE_URL: url, SLUICE_API_KEY: key, NO_COLOR: '1', ...env },
  })
  return started.ended
}

const readAll = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(path.join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name))
      .map((file): [string, string] => [path.relative(path.join(root, folder), file), readFileSync(file, 'utf8')])
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  )

const objects = {
  domains: [{ name: 'Sales', color: '#3366cc' }],
  connections: [
    {
      name: 'Shop',
      type: 'source',
      connector_name: 'postgres',
      config: { config: { host: 'db.example.com', database: 'shop', user: 'reader', password: `hunter2-\${X}` } },
    },
    {
      name: 'Shop',
      type: 'destination',
      connector_name: 'postgres',
      config: { host: 'dw.example.com', database: 'dw', user: 'w', password: 'hunter3' },
    },
  ],
  pipelines: [
    {
      name: '../../evil',
      domain: 'Sales',
      schedule: '0 6 * * *',
      config: {
        source: { connection: 'Shop', stream: 'public.orders' },
        destination: { connection: 'Shop', config: { table: 'orders' } },
      },
    },
  ],
}

test('an organization goes into files, into an empty organization and out again as the same bytes; edits are planned and applied', async () => {
  const [first, second] = [await addOrganization(app), await addOrganization(app)]
  const [key, otherKey] = [await keyOf(first), await keyOf(second)]
  assert.equal((await app.call('POST', '/api/changes', { as: first, body: { objects } })).status, 200)

  const exported = await sluice(key, ['export', 'one'])
  assert.deepEqual([exported.code, exported.stderr, exported.stdout], [0, '', '4 files in one, 4 written\n'])
  const files = readAll('one')
  assert.deepEqual(Object.keys(files), [
    'connections/Shop (destination).yaml',
    'connections/Shop (source).yaml',
    'domains.yaml',
    'pipelines/%2E.%2F..%2Fevil.yaml',
  ])
  assert.equal(
    files['pipelines/%2E.%2F..%2Fevil.yaml'],
    `# yaml-language-server: $schema=${url}/schemas/pipeline.json
name: ../../evil
domain: Sales
schedule: 0 6 * * *
config:
  source:
    connection: Shop
    stream: public.orders
  destination:
    connection: Shop
    config:
      table: orders
`,
  )
  assert.doesNotMatch(JSON.stringify(files), /hunter/)
  const [password] = /\$\{SHOP_PASSWORD_[0-9A-F]{8}\}/.exec(files['connections/Shop (source).yaml']!)!
  const [target] = /\$\{SHOP_PASSWORD_[0-9A-F]{8}\}/.exec(files['connections/Shop (destination).yaml']!)!

  // Nothing to do where it came from, without a value for any secret.
  const same = await sluice(key, ['plan', '--prune', 'one'])
  assert.deepEqual([same.code, same.stdout], [0, 'Nothing to do: the organization has all that the files describe.\n'])
  assert.equal(same.stderr, '2 references without a value: what is stored there stays.\n')

  // A new organization needs the secrets.
  const lacking = await sluice(otherKey, ['plan', 'one'])
  assert.equal(lacking.code, 1)
  assert.match(
    lacking.stderr,
    new RegExp(
      `^one/connections/Shop \\(destination\\)\\.yaml:\\d+:\\d+: \\${target.replace(/[{}]/g, '\\$&')} has no value; set it in the environment or in a \\.env file$`,
      'm',
    ),
  )
  writeFileSync(path.join(root, 'one/.env'), `${target.slice(2, -1)}=hunter3\n`)
  const variables = { [password.slice(2, -1)]: `hunter2-\${X}` }
  const planned = await sluice(otherKey, ['plan', 'one'], variables)
  assert.equal(planned.code, 2, planned.stderr)
  assert.equal(
    planned.stdout,
    '+ domain Sales\n+ connection Shop\n+ connection Shop\n+ pipeline ../../evil\n4 to create.\n',
  )
  const asked = await sluice(otherKey, ['apply', 'one'], variables)
  assert.deepEqual(
    [asked.code, asked.stderr],
    [1, 'Nobody can be asked here; use --yes to apply without a question.\n'],
  )
  const applied = await sluice(otherKey, ['apply', '--yes', 'one'], variables)
  assert.deepEqual([applied.code, applied.stdout.split('\n').at(-2)], [0, 'Applied: 4 created.'])
  assert.equal((await sluice(otherKey, ['export', 'two'])).code, 0)
  assert.deepEqual(readAll('two'), files)
  // The secret itself arrived, with its dollar.
  const again = await sluice(otherKey, ['plan', 'one', '--json'], variables)
  assert.deepEqual([again.code, JSON.parse(again.stdout).changes], [0, []])

  // An edit, for a pull request.
  const file = path.join(root, 'two/pipelines/%2E.%2F..%2Fevil.yaml')
  writeFileSync(
    file,
    readFileSync(file, 'utf8').replace('schedule: 0 6 * * *', 'schedule: "*/5 * * * *"\nenabled: false'),
  )
  const comment = await sluice(otherKey, ['plan', '--markdown', 'two'])
  assert.equal(comment.code, 2)
  assert.equal(
    comment.stdout,
    '### Sluice plan\n\n**1 to change**\n\n- change pipeline `../../evil`\n  - `schedule`: `"0 6 * * *"` → `"*/5 * * * *"`\n  - `enabled`: `true` → `false`\n',
  )
  writeFileSync(file, readFileSync(file, 'utf8').replace('enabled: false', 'enabld: false'))
  const wrong = await sluice(otherKey, ['plan', 'two'])
  assert.deepEqual([wrong.code, wrong.stdout], [1, ''])
  assert.match(
    wrong.stderr,
    /^two\/pipelines\/%2E\.%2F\.\.%2Fevil\.yaml:5:1: enabld: unknown field; did you mean 'enabled'\?\n1 problem; nothing can be applied\.\n$/,
  )
})

test('all mistakes of all files are told at once, file by file and line by line', async () => {
  const owner = await addOrganization(app)
  const key = await keyOf(owner)
  for (const folder of ['wrong', 'wrong/pipelines', 'wrong/connections', 'wrong/sources'])
    mkdirSync(path.join(root, folder))
  const write = (file: string, ...lines: string[]) =>
    writeFileSync(path.join(root, 'wrong', file), `${lines.join('\n')}\n`)
  write(
    'pipelines/Orders.yaml',
    'name: Orders',
    'shedule: 0 6 * * *',
    'timezone: Europe/Berln',
    'config:',
    '  source: { name: dummy, stream: creatures, config: { recods: 5 } }',
    '  destination:',
    '    connection: Shop',
    '  sync:',
    '    mode: sometimes',
  )
  write(
    'connections/Shop.yaml',
    'name: Shop',
    'type: destination',
    'connector_name: postgres',
    'config:',
    '  hots: db.example.com',
    '  port: "5432"',
    `  password: \${NO_SUCH_VALUE}`,
    `  user: \${NOR_THIS}`,
  )
  write('sources/team.yaml', 'source_name: team', 'nam: Team')
  write('sources/team.py', 'x = 1', 'def f(:')
  const planned = await sluice(key, ['plan', 'wrong'])
  assert.deepEqual([planned.code, planned.stdout], [1, ''])
  assert.deepEqual(
    planned.stderr.split('\n').map((line) => line.replace(/^wrong\/|(?<=:\d+:\d+: (\S+ ){2}).*/g, '').trim()),
    [
      'connections/Shop.yaml:5:3: hots: unknown',
      'connections/Shop.yaml:6:9: port: must',
      `connections/Shop.yaml:7:13: \${NO_SUCH_VALUE} has`,
      `connections/Shop.yaml:8:9: \${NOR_THIS} has`,
      'pipelines/Orders.yaml:2:1: shedule: unknown',
      'pipelines/Orders.yaml:3:11: timezone: there',
      'pipelines/Orders.yaml:5:55: recods: unknown',
      "pipelines/Orders.yaml:9:11: mode: 'sometimes'",
      'sources/team.py:2:7: syntax error:',
      'sources/team.yaml:1:1: name: is',
      'sources/team.yaml:2:1: nam: unknown',
      '11 problems; nothing can be applied.',
      '',
    ],
    planned.stderr,
  )
})

test('what no longer exists is told, and removed only when asked', async () => {
  const owner = await addOrganization(app)
  const key = await keyOf(owner)
  await app.call('POST', '/api/changes', { as: owner, body: { objects } })
  await sluice(key, ['export', 'three'])
  await app.call('POST', '/api/changes', { as: owner, body: { objects: { ...objects, pipelines: [] }, prune: true } })
  const left = await sluice(key, ['export', 'three'])
  assert.match(left.stderr, /evil\.yaml describes nothing that exists; delete it, or use --prune/)
  const planned = await sluice(key, ['plan', 'three'])
  assert.equal(planned.code, 2)
  await sluice(key, ['export', '--prune', 'three'])
  assert.equal((await sluice(key, ['plan', 'three'])).code, 0)
  assert.equal((await sluice(key, ['plan', 'three', '--no-such-option'])).code, 1)
  assert.equal((await sluice('wrong', ['plan', 'three'])).code, 1)
})

test('an export leaves to people what they wrote: names of files, comments, references', async () => {
  const owner = await addOrganization(app)
  const key = await keyOf(owner)
  const more = { ...objects.pipelines[0]!, name: 'other', domain: null, schedule: null }
  const all = { ...objects, pipelines: [...objects.pipelines, more] }
  assert.equal((await app.call('POST', '/api/changes', { as: owner, body: { objects: all } })).status, 200)
  await sluice(key, ['export', 'own'])
  const at = (file: string) => path.join(root, 'own', file)
  const edit = (file: string, change: (text: string) => string) =>
    writeFileSync(at(file), change(readFileSync(at(file), 'utf8')))
  renameSync(at('pipelines/%2E.%2F..%2Fevil.yaml'), at('pipelines/nightly.yml'))
  edit('pipelines/nightly.yml', (text) =>
    text.replace('schedule: 0 6 * * *', '# Before people come.\nschedule: 0 6 * * *  # UTC'),
  )
  edit('connections/Shop (source).yaml', (text) =>
    text.replace(/\$\{SHOP_PASSWORD_\w+\}/, `\${OUR_OWN} # from the vault`),
  )
  edit('domains.yaml', (text) => `${text}# Later:\n- name: Support\n`)
  const before = readAll('own')
  const same = await sluice(key, ['export', 'own'])
  assert.equal(same.stdout, '5 files in own, none of them changed\n')
  assert.equal(same.stderr, 'domains.yaml has Support, which does not exist; delete it there, or use --prune.\n')
  assert.deepEqual(readAll('own'), before)

  // One domain: the files of the others are none of its business.
  const sales = await sluice(key, ['export', '--prune', '--domain', 'Sales', 'own'])
  assert.deepEqual([sales.code, sales.stderr], [0, ''])
  assert.deepEqual(readAll('own'), before)

  // The organization changes: so do these characters, and a new object gets its own file.
  const [evil] = objects.pipelines
  const changed = { ...all, pipelines: [{ ...evil, schedule: '0 7 * * *' }, more, { ...more, name: 'nightly' }] }
  assert.equal((await app.call('POST', '/api/changes', { as: owner, body: { objects: changed } })).status, 200)
  const updated = await sluice(key, ['export', '--prune', 'own'])
  assert.equal(updated.stderr, 'Removed Support from domains.yaml.\n')
  const after = readAll('own')
  const [fresh] = Object.keys(after).filter((file) => !(file in before))
  assert.match(fresh!, /^pipelines\/nightly~[0-9a-f]{8}\.yaml$/)
  assert.match(after[fresh!]!, /^name: nightly$/m)
  assert.deepEqual(
    { ...after, [fresh!]: undefined },
    {
      ...before,
      'pipelines/nightly.yml': before['pipelines/nightly.yml']!.replace('0 6', '0 7'),
      'domains.yaml': before['domains.yaml']!.replace('# Later:\n- name: Support\n', ''),
      [fresh!]: undefined,
    },
  )
  assert.equal((await sluice(key, ['plan', '--prune', 'own'])).code, 0)

  // What cannot be read is not written over.
  writeFileSync(at('pipelines/other.yaml'), 'name: [')
  const broken = await sluice(key, ['export', 'own'])
  assert.equal(broken.code, 1)
  assert.match(
    broken.stderr,
    /^own\/pipelines\/other\.yaml:1:8: .*; correct the file or delete it\. Nothing was exported\.\n$/,
  )
  writeFileSync(at('pipelines/other.yaml'), readFileSync(at('pipelines/nightly.yml')))
  const twice = await sluice(key, ['export', '--prune', 'own'])
  assert.match(
    twice.stderr,
    /^pipelines\/other\.yaml describes the same as pipelines\/nightly\.yml; delete one of them\.\n$/,
  )
  assert.ok(readAll('own')['pipelines/other.yaml'])
})

test('on a terminal apply asks, and only yes changes something', async () => {
  const owner = await addOrganization(app)
  const key = await keyOf(owner)
  mkdirSync(path.join(root, 'four'))
  writeFileSync(path.join(root, 'four/domains.yaml'), '- name: Sales\n')
  const terminal = path.join(import.meta.dirname, '../cli/terminal.py')
  const answer = (typed: string) =>
    startProgram(
      'python3',
      [terminal, process.execPath, MAIN, 'apply', 'four'],
      {
        cwd: root,
        env: { PATH: process.env.PATH ?? '', HOME: root, SLUICE_URL: url, SLUICE_API_KEY: key, NO_COLOR: '1' },
      },
      typed,
    ).ended
  const refused = await answer('n\n')
  assert.equal(refused.code, 1)
  assert.match(refused.stdout, /\+ domain Sales[\s\S]*Apply this to http:\S+ \[y\/N\][\s\S]*Nothing was changed\./)
  const agreed = await answer('y\n')
  assert.equal(agreed.code, 0, agreed.stdout)
  assert.match(agreed.stdout, /Applied: 1 created\./)
})
