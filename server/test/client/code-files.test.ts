/** The files of an organization: their names, their text, and reading them back. FUZZ_SEED and FUZZ_RUNS make others and more. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { parse } from 'yaml'
import { escapeText, referencesIn, resolveText } from '../../src/changes/references.ts'
import { readExisting } from '../../src/client/code/existing.ts'
import { describeFiles } from '../../src/client/code/export.ts'
import { makeFileNames } from '../../src/client/code/file-names.ts'
import { readFolder } from '../../src/client/code/read-folder.ts'
import { updateObject } from '../../src/client/code/update-yaml.ts'
import { readVariables } from '../../src/client/code/variables.ts'
import { writeFolder } from '../../src/client/code/write-folder.ts'
import { toYaml } from '../../src/client/code/yaml-text.ts'
import { organization } from '../changes/organizations.ts'

const seed = Number(process.env.FUZZ_SEED ?? 20_260_101)
const numRuns = Number(process.env.FUZZ_RUNS ?? 200)
const root = mkdtempSync(path.join(tmpdir(), 'sluice-files-'))
after(() => rmSync(root, { recursive: true, force: true }))
let folders = 0
const makeFolder = () => {
  const folder = path.join(root, String(++folders))
  mkdirSync(folder)
  return folder
}
const nobody = () => undefined

const hostileName = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 100 }),
  fc.constantFrom(
    '../x',
    '/',
    '\0',
    '.',
    '..',
    'CON',
    'nul.txt',
    'A',
    'a',
    'ﬁ',
    'fi',
    'é',
    'e\u0301',
    'x'.repeat(300),
    '😀'.repeat(100),
    '-rf',
    ' ',
    '~',
    '%2F',
  ),
)

test('whatever objects are called, their files are distinct, also where letters of both cases are one, and stay in their folder', () => {
  fc.assert(
    fc.property(fc.uniqueArray(hostileName, { maxLength: 20 }), (names) => {
      const files = makeFileNames(names).map((name) => `${name}.manifest.yaml`)
      assert.equal(new Set(files.map((file) => file.normalize('NFKC').toUpperCase().toLowerCase())).size, names.length)
      for (const file of files) {
        assert.ok(Buffer.byteLength(file) <= 255, file)
        assert.equal(path.basename(file), file)
        assert.equal(path.win32.basename(file), file)
        assert.doesNotMatch(file, /^\.|[\0-\x1f<>:"/\\|?*]/)
      }
    }),
    { seed, numRuns },
  )
})

test('the text of any object reads back as that object', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      const plain = JSON.parse(JSON.stringify(value))
      assert.deepEqual(parse(toYaml({ value: plain }, 'http://x/y')), { value: plain })
    }),
    { seed, numRuns },
  )
  for (const text of [
    'yes',
    'no',
    '~',
    'null',
    '1',
    '1e3',
    '0x1f',
    '- a',
    'a: b',
    '# c',
    ' x ',
    'a\nb',
    '\t',
    '"',
    "'",
    '',
    '...',
    '---',
    '\u2028',
    '&a',
    '*a',
    '!a',
    '=',
    '<<',
    '2026-01-01',
  ])
    assert.deepEqual(parse(toYaml({ [text]: text }, 'http://x/y')), { [text]: text })
})

test('a text with references in it survives escaping', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc
          .array(fc.constantFrom('$', '{', '}', 'A', ':json', `\${A}`, `$\${`), { maxLength: 8 })
          .map((parts) => parts.join('')),
      ),
      (text) => {
        assert.deepEqual(referencesIn(escapeText(text)), [])
        assert.equal(
          resolveText(escapeText(text), () => assert.fail()),
          text,
        )
      },
    ),
    { seed, numRuns },
  )
})

test('a folder that was written reads back as the same objects, and writing it again changes no file', async () => {
  await fc.assert(
    fc.asyncProperty(organization, async (objects) => {
      const folder = makeFolder()
      const sources = [
        { source_name: 'Team', name: 'Team', code: 'x = 1\r\n' },
        { source_name: 'team', name: 'Other', description: 'yes', code: '# no line break at the end' },
        { source_name: 'shop', name: 'Shop', language: 'manifest', code: 'version: "6.0.0"\n' },
      ]
      const escaped = escapeConfigs({ ...objects, sources })
      const files = describeFiles(escaped, 'http://x/schemas')
      assert.equal((await writeFolder(folder, files)).written, files.size)
      assert.deepEqual(await writeFolder(folder, files), { written: 0, left: [] })
      const read = await readFolder(folder, nobody)
      assert.deepEqual(read.problems, [])
      const again = describeFiles(escapeConfigs(read.objects), 'http://x/schemas')
      assert.deepEqual(new Map([...again].sort()), new Map([...files].sort()))
    }),
    { seed, numRuns: Math.ceil(numRuns / 8) },
  )
})

/** With remarks everywhere, another order, and files under other names. */
function rework(folder: string, files: Map<string, string>): void {
  for (const [index, [file, text]] of [...files].entries()) {
    if (!file.endsWith('.yaml') || file === 'domains.yaml' || file.startsWith('manifests/')) continue
    const blocks = text.split(/\n(?=\S)/).filter((block) => !block.startsWith('#'))
    const remarked = blocks.reverse().map((block, number) => `# remark ${number}\n${block.trimEnd()}`)
    writeFileSync(path.join(folder, file), `# ours\n${remarked.join('\n')}\n`)
    if (file.startsWith('sources/')) continue
    const renamed = path.join(folder, path.dirname(file), `own ${index}.yml`)
    renameSync(path.join(folder, file), renamed)
  }
}

const readTexts = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name))
      .map((file) => [path.relative(folder, file), readFileSync(file, 'utf8')]),
  )

test('an export into a folder that people edited changes what differs, in the files that have it, and nothing else', async () => {
  await fc.assert(
    fc.asyncProperty(organization, organization, async (first, second) => {
      const folder = makeFolder()
      const sources = [{ source_name: 'team', name: 'Team', code: 'x = 1\n' }]
      const before = escapeConfigs({ ...first, sources })
      await writeFolder(folder, describeFiles(before, 'http://x/schemas'))
      rework(folder, describeFiles(before, 'http://x/schemas'))
      const texts = readTexts(folder)

      // The same: not a byte.
      const same = describeFiles(before, 'http://y/schemas', await readExisting(folder))
      assert.equal((await writeFolder(folder, same)).written, 0)
      assert.deepEqual(readTexts(folder), texts)

      // Another organization: its objects are what the files say, and remarks stay where an object stays.
      const after = escapeConfigs({
        ...second,
        sources: [{ ...sources[0], name: 'Other', description: 'yes' }],
      }) as unknown as typeof first
      const { left } = await writeFolder(folder, describeFiles(after, 'http://y/schemas', await readExisting(folder)))
      const read = await readFolder(folder, nobody)
      assert.deepEqual(read.problems, [])
      for (const kind of ['domains', 'sources', 'connections', 'pipelines'] as const)
        for (const object of after[kind]) {
          const written = escapeConfigs({ [kind]: read.objects[kind] })[kind] as Record<string, unknown>[]
          const found = written.filter(
            ({ name, source_name, type }) =>
              name === object.name && source_name === object.source_name && type === object.type,
          )
          assert.deepEqual(found, [object])
        }
      for (const [file, text] of Object.entries(readTexts(folder)))
        if (/^(pipelines|connections)\/own/.test(file)) assert.match(text, /^# ours\n[\s\S]*# remark 0/)
      // Again: nothing to do.
      const again = await writeFolder(folder, describeFiles(after, 'http://z/schemas', await readExisting(folder)))
      assert.deepEqual(again, { written: 0, left })
    }),
    { seed, numRuns: Math.ceil(numRuns / 4) },
  )
})

test('a value that takes the place of another one changes its own characters only', () => {
  const text = `# ours
name:   Orders   # the name
schedule: '0 6 * * *'   # every morning
enabled: true
config:
  source: {name: dummy, stream: creatures,   config: {records: 0x10, note: "a"}}
  destination:
    name: postgres
    config:
      host: \${DB_HOST}
      password: "\${OUR_PASSWORD}"
      port: 5432 # usual
  columns:
    exclude:
    - a   # first
    - b
`
  const wanted = (more: object = {}) => ({
    name: 'Orders',
    schedule: '0 6 * * *',
    config: {
      source: { name: 'dummy', stream: 'creatures', config: { records: 16, note: 'a' } },
      destination: {
        name: 'postgres',
        config: { host: 'db.example.com', password: `\${ORDERS_PASSWORD}`, port: 5432 },
      },
      columns: { exclude: ['a', 'b'] },
    },
    ...more,
  })
  assert.equal(updateObject(text, wanted()), text)
  assert.equal(
    updateObject(text, wanted({ schedule: '*/5 * * * *', enabled: false })),
    text.replace("'0 6 * * *'", "'*/5 * * * *'").replace('enabled: true', 'enabled: false'),
  )
  const { config } = wanted()
  assert.equal(
    updateObject(text, {
      ...wanted(),
      config: { ...config, source: { ...config.source, config: { records: 20, note: 'it, "is"' } } },
    }),
    text.replace('0x10', '20').replace('"a"', '"it, \\"is\\""'),
  )
  // What comes or goes is written in the way of the file, and remarks stay.
  const changed = updateObject(text, {
    ...wanted({ domain: 'Sales' }),
    config: { ...config, columns: { exclude: ['a', 'c', 'b'] } },
  })!
  assert.match(changed, /^# ours\nname: Orders # the name\nschedule: '0 6 \* \* \*' # every morning\n/)
  assert.match(changed, /\n {2}source: \{name: dummy, /)
  assert.match(changed, /\n {4}- a # first\n {4}- c\n {4}- b\n/)
  assert.match(changed, /\ndomain: Sales\n/)
  // A secret that somebody wrote into the file becomes a reference.
  assert.equal(
    updateObject(text.replace(`"\${OUR_PASSWORD}"`, 'hunter2'), wanted()),
    text.replace(`"\${OUR_PASSWORD}"`, `\${ORDERS_PASSWORD}`),
  )
  // Where two places are one in the file, none is edited that would change the other.
  assert.equal(
    updateObject('name: &a x\nconfig: { b: *a }\n', { name: 'x', config: { b: 'y' } }),
    'name: &a x\nconfig: { b: y }\n',
  )
  assert.equal(
    updateObject('name: x\nconfig: &c { b: &d { e: 1 }, f: *d }\n', {
      name: 'x',
      config: { b: { e: 2 }, f: { e: 1 } },
    }),
    null,
  )
})

test('a text of many lines of another kind takes no longer than any other', () => {
  const object = { name: 'a', config: { query: 'a\u2028'.repeat(100_000) } }
  const started = performance.now()
  assert.ok(
    updateObject(toYaml(object, 'x'), { ...object, config: { ...object.config, more: 1 } })?.includes('more: 1'),
  )
  assert.ok(performance.now() - started < 5000, `took ${performance.now() - started} ms`)
})

/** As an export gives them. */
const escapeConfigs = (objects: object) =>
  Object.fromEntries(
    Object.entries(objects).map(([kind, all]) => [
      kind,
      (all as { config?: unknown }[]).map((object) =>
        object.config === undefined ? object : { ...object, config: escapeTexts(object.config) },
      ),
    ]),
  )

function escapeTexts(value: unknown): unknown {
  if (typeof value === 'string') return escapeText(value)
  if (Array.isArray(value)) return value.map(escapeTexts)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, escapeTexts(inner)]))
}

test('nothing is written through a link, and links are not read', async () => {
  const [folder, outside] = [makeFolder(), makeFolder()]
  writeFileSync(path.join(outside, 'victim'), 'untouched')
  mkdirSync(path.join(folder, 'pipelines'))
  symlinkSync(path.join(outside, 'victim'), path.join(folder, 'pipelines/a.yaml'))
  await writeFolder(folder, new Map([['pipelines/a.yaml', 'name: a\n']]))
  assert.equal(readFileSync(path.join(outside, 'victim'), 'utf8'), 'untouched')
  assert.ok(lstatSync(path.join(folder, 'pipelines/a.yaml')).isFile())
  symlinkSync(outside, path.join(folder, 'connections'))
  await assert.rejects(
    writeFolder(folder, new Map([['connections/a.yaml', 'name: a\n']])),
    /connections is not a folder but a link/,
  )
  // Nor is what is behind a link said to be left, which would have it removed.
  writeFileSync(path.join(outside, 'other.yaml'), 'untouched')
  assert.deepEqual((await writeFolder(folder, new Map([['pipelines/a.yaml', 'name: a\n']]))).left, [])
  assert.deepEqual(readdirSync(outside).sort(), ['other.yaml', 'victim'])
  symlinkSync(path.join(outside, 'victim'), path.join(folder, 'pipelines/b.yaml'))
  const { problems } = await readFolder(folder, nobody)
  assert.deepEqual(
    problems.map(({ file, message }) => [path.relative(folder, file!), message]),
    [
      ['connections', 'is not a folder, and links are not followed; put the folder itself here'],
      ['pipelines/b.yaml', 'is not a file, and links are not followed; put the file itself here'],
    ],
  )
})

test('all problems of all files are reported at once, with file, line and column', async () => {
  const folder = makeFolder()
  for (const name of ['pipelines', 'sources', 'connections']) mkdirSync(path.join(folder, name))
  const files = {
    'domains.yaml': 'name: not a list\n',
    'pipelines/broken.yaml': 'name: x\nconfig: [1, 2\n',
    'pipelines/twice.yaml': 'name: x\nname: y\n',
    'pipelines/text.yaml': 'just a text\n',
    'sources/alone.py': 'x = 1\n',
    'sources/lonely.yaml': 'source_name: lonely\nname: Lonely\n',
    'connections/own.yaml': `name: own\nconfig:\n  password: \${SLUICE_API_KEY}\n  port: \${PORT:json}\n  limit: .inf\n`,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text)
  const { problems } = await readFolder(folder, (name) => (name === 'PORT' ? 'not json' : 'secret'))
  const told = problems
    .map(({ file, line, column, message }) => `${path.relative(folder, file!)}:${line}:${column}: ${message}`)
    .sort()
  assert.deepEqual(
    told.map((line) => line.replace(/(twice|broken)(\.yaml:\d+:\d+): .*/s, '$1$2')),
    [
      `connections/own.yaml:3:13: \${SLUICE_API_KEY} is a setting of sluice itself and is never sent; use another name`,
      `connections/own.yaml:4:9: the value of \${PORT:json} is not valid JSON; a text is written without :json`,
      'connections/own.yaml:5:10: Infinity is not a number that JSON has; use another one',
      'domains.yaml:1:1: must be a list of domains, each with a name',
      'pipelines/broken.yaml:3:1',
      'pipelines/text.yaml:1:1: must be a map of fields, such as name: …',
      'pipelines/twice.yaml:2:1',
      'sources/alone.py:1:1: needs sources/alone.yaml beside it, with source_name and name',
      'sources/lonely.py:1:1: does not exist; write the code there, or delete its description',
    ],
  )
  await assert.rejects(readFolder(makeFolder(), nobody), /has neither domains.yaml nor files/)
})

test('a problem of the service is found at its line, and a missing value is named', async () => {
  const folder = makeFolder()
  mkdirSync(path.join(folder, 'connections'))
  writeFileSync(
    path.join(folder, 'connections/shop.yaml'),
    `# comment\nname: shop\ntype: source\nconfig:\n  authentication:\n    params:\n      token: \${NOT_SET}\n`,
  )
  const read = await readFolder(folder, nobody)
  assert.deepEqual(read.objects.connections[0]!.config, { authentication: { params: { token: '********' } } })
  const at = (pointer: string, message = 'wrong') => {
    const found = read.locate({ pointer, message, line: null, column: null })
    return `${found.line}:${found.column}: ${found.message}`
  }
  assert.equal(at('/objects/connections/0/name'), '2:7: name: wrong')
  assert.equal(at('/objects/connections/0/name', 'unknown field'), '2:1: name: unknown field')
  assert.equal(at('/objects/connections/0/config/resources/0/1'), '4:1: resources[0][1]: wrong')
  assert.equal(at('/objects/connections/0/connector_name'), '2:1: connector_name: wrong')
  assert.equal(at('/objects/connections/0/config/authentication'), '5:3: authentication: wrong')
  assert.equal(
    at(
      '/objects/connections/0/config/authentication/params/token',
      'is a mask, but no secret is stored there; send the secret itself',
    ),
    `7:14: \${NOT_SET} has no value; set it in the environment or in a .env file`,
  )
})

test('a .env file is read where git ignores it, and refused where git has it or would take it', async () => {
  const folder = makeFolder()
  writeFileSync(path.join(folder, '.env'), 'A_SECRET="of the file"\n')
  assert.equal((await readVariables(folder, {}))('A_SECRET'), 'of the file')
  const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, stdio: 'ignore' })
  git('init')
  await assert.rejects(readVariables(folder, {}), /git does not ignore it\. Add it to \.gitignore/)
  writeFileSync(path.join(folder, '.gitignore'), '.env\n')
  assert.equal((await readVariables(folder, {}))('A_SECRET'), 'of the file')
  git('add', '--force', '.env')
  await assert.rejects(readVariables(folder, {}), /is in git, so everyone/)
  await assert.rejects(readVariables(folder, { '--env-file': path.join(folder, 'none') }), /there is no such file/)
  symlinkSync(path.join(folder, '.env'), path.join(folder, 'link'))
  await assert.rejects(readVariables(folder, { '--env-file': path.join(folder, 'link') }), /is not a file but a link/)
  assert.ok(existsSync(path.join(folder, '.env')))
})
