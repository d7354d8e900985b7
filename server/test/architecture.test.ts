/** The import rules, enforced by reading the import statements of every file. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const source = path.resolve(import.meta.dirname, '../src')
const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) => /\.[jt]s$/.test(file))

interface Import {
  from: string
  /** A file of ours, by its path in src; otherwise the name of a package. */
  to: string
  own: boolean
  /** Erased at run time. */
  typeOnly: boolean
  /** Loaded on demand, not with the file. */
  later: boolean
}

const STATEMENT = /^(?:import|export)\s+(type\s)?(?:([^'";]*?)\s+from\s+)?'([^']+)'/gm
const CALL = /\bimport\(\s*'([^']+)'\s*\)/g

function readImports(file: string): Import[] {
  const text = readFileSync(path.join(source, file), 'utf8')
  const resolve = (target: string, typeOnly: boolean, later: boolean): Import => {
    const own = target.startsWith('.')
    const to = own ? path.normalize(path.join(path.dirname(file), target)) : target
    return { from: file, to, own, typeOnly, later }
  }
  const statements = [...text.matchAll(STATEMENT)].map(([, type, names, target]) => {
    const named = /^\{([^}]*)\}$/
      .exec(names?.trim() ?? '')?.[1]
      ?.split(',')
      .map((name) => name.trim())
      .filter(Boolean)
    return resolve(target!, Boolean(type) || (named?.every((name) => name.startsWith('type ')) ?? false), false)
  })
  return [...statements, ...[...text.matchAll(CALL)].map(([, target]) => resolve(target!, false, true))]
}

const imports = files.flatMap(readImports)
const folderOf = (file: string) => file.split('/')[0]!
const describe = ({ from, to }: Import) => `${from} imports ${to}`

/** From top to bottom. Every import, including those of types, points further down this list. */
const ORDER = [
  'main.js',
  'cli',
  'client',
  'http',
  'scheduler',
  'services.ts',
  'metrics.ts',
  'readiness.ts',
  'mcp',
  'changes',
  'backup',
  'runs',
  'webhooks',
  'alerts',
  'pipelines',
  'connections',
  'identity',
  'tenancy',
  'executors',
  'engine',
  'cell',
  'connectors',
  'log.ts',
  'config',
  'egress',
  'blobs',
  's3',
  'database',
  'json',
  'log-lines.ts',
  'traces.ts',
  'errors.ts',
  'gate.ts',
  'heap.ts',
  'for-each-fairly.ts',
  'sha256.ts',
  'wake-signal.ts',
  'nearest.ts',
  'schema.ts',
  'undici.ts',
  'version.ts',
]
/** These folders handle what tenants and their servers send; none of them may reach our own database. */
const WITHOUT_DATABASE = ['mcp', 'executors', 'engine', 'cell', 'connectors', 'egress', 'blobs', 's3', 'json']

test('the imports of the source tree are found', () => {
  assert.ok(files.length > 80 && imports.length > 300)
  const missing = imports.filter(({ own, to }) => own && to.endsWith('.ts') && !files.includes(to))
  assert.deepEqual(missing.map(describe), [])
})

test('every folder is in the order, and every entry exists', () => {
  assert.deepEqual([...new Set(files.map(folderOf))].sort(), [...ORDER].sort())
})

test('imports point one way, including those of types, so there is no cycle between folders', () => {
  const upward = imports.filter(({ from, to, own }) => {
    const [here, there] = [ORDER.indexOf(folderOf(from)), ORDER.indexOf(folderOf(to))]
    return own && here !== there && there < here
  })
  assert.deepEqual(upward.map(describe), [])
})

test("code that handles tenants' bytes never reaches the platform's database", () => {
  const reaching = imports.filter(
    ({ from, to, own }) =>
      own && WITHOUT_DATABASE.includes(folderOf(from)) && ['database', 'config'].includes(folderOf(to)),
  )
  assert.deepEqual(reaching.map(describe), [])
})

test("no connector and no engine reaches the operator's credentials", () => {
  const reaching = imports.filter(
    ({ from, to }) => to.startsWith('blobs/ambient/') && !from.startsWith('blobs/') && !from.startsWith('config/'),
  )
  assert.deepEqual(reaching.map(describe), [])
})

/** Everything that a file loads, directly or indirectly; `atOnce`: before it does anything. */
function reach(start: string, atOnce = false): Set<string> {
  const seen = new Set([start])
  const next = [start]
  for (let file = next.pop(); file !== undefined; file = next.pop())
    for (const { to, own, typeOnly, later } of imports.filter(({ from }) => from === file)) {
      if (typeOnly || (atOnce && later)) continue
      const name = own ? to : `package ${to}`
      if (seen.has(name)) continue
      seen.add(name)
      if (own) next.push(to)
    }
  return seen
}

/** The folders of the systems, as the registry imports them. */
const systems = imports
  .filter(({ from, own }) => from === 'connectors/registry.ts' && own)
  .map(({ to }) => to.split('/').slice(0, 2).join('/'))
  .filter((folder) => files.some((file) => file.startsWith(`${folder}/`)))

test('only the registry knows a system: a new one needs its folder, a line there and its fixture', () => {
  assert.ok(systems.length >= 6)
  // Columns stored before types were neutral have PostgreSQL's type names.
  const allowed = ['connectors/registry.ts', 'connectors/kept-columns.ts']
  const inside = imports.filter(({ from, to }) => {
    const system = systems.find((folder) => to.startsWith(`${folder}/`))
    return system !== undefined && !from.startsWith(`${system}/`) && !allowed.includes(from)
  })
  assert.deepEqual(inside.map(describe), [])
  const names = [...new Set(systems.map((folder) => folder.split('/')[1]))].join('|')
  const byName = new RegExp(`(name|system) [!=]== '(${names})'`)
  const knowing = files.filter((file) => byName.test(readFileSync(path.join(source, file), 'utf8')))
  assert.deepEqual(knowing, [])
})

test('an executor loads nothing of the service', () => {
  const reached = reach('executors/executor.ts')
  assert.ok(reached.size > 20)
  const service = [...reached].filter(
    (file) => ORDER.indexOf(folderOf(file)) < ORDER.indexOf('executors') && ORDER.includes(folderOf(file)),
  )
  assert.deepEqual(service, [])
})

test('a command that calls a service loads neither the server nor a driver, so that it starts at once', () => {
  const tools = 'client/mcp.ts'
  const entries = files.filter((file) => folderOf(file) === 'client' && file !== tools)
  const reached = new Set(entries.flatMap((file) => [...reach(file)]))
  assert.ok(entries.length > 5 && reached.has('client/service.ts'))
  const allowed = (file: string) =>
    folderOf(file) === 'client' ||
    [
      'changes/references.ts',
      'config/client-config.ts',
      'errors.ts',
      'json/parse-exactly.ts',
      'nearest.ts',
      'version.ts',
    ].includes(file) ||
    /^package (node:|yaml$)/.test(file)
  assert.deepEqual(
    [...reached].filter((file) => !allowed(file)),
    [],
  )
  // Tools need the packages of their protocol, which no other command loads.
  const ofTools = [...reach(tools)].filter((file) => !reached.has(file) && !file.startsWith('mcp/'))
  assert.deepEqual(ofTools.sort(), [
    tools,
    'connectors/settings/settings.ts',
    'package @modelcontextprotocol/server',
    'package @modelcontextprotocol/server/stdio',
    'package node:events',
    'schema.ts',
    'version.ts',
  ])
  // Importing it loads fetch too, which takes longer than the rest of a command (client/send.ts).
  assert.ok(!reached.has('package node:http') && !reached.has('package node:https'))
})

test('packages that take long to load are loaded only by who uses them', () => {
  const atOnce = imports.filter(({ typeOnly, later }) => !typeOnly && !later)
  assert.deepEqual(atOnce.filter(({ to }) => /^(undici|nodemailer)(\/|$)/.test(to)).map(describe), [])
})

test('what is loaded at run time is a dependency, also where those for development are left out', () => {
  const { dependencies } = JSON.parse(readFileSync(path.join(source, '../package.json'), 'utf8'))
  const packages = imports.filter(({ to, own, typeOnly }) => !own && !typeOnly && !to.startsWith('node:'))
  assert.ok(packages.length > 20)
  const nameOf = (to: string) =>
    to
      .split('/')
      .slice(0, to.startsWith('@') ? 2 : 1)
      .join('/')
  assert.deepEqual(packages.filter(({ to }) => !(nameOf(to) in dependencies)).map(describe), [])
})

test('what every command loads at first is small', () => {
  const reached = reach('cli/commands.ts', true)
  const known = [
    'cli/client-commands.ts',
    'cli/commands.ts',
    'cli/usage.ts',
    'client/clean.ts',
    'errors.ts',
    'nearest.ts',
  ]
  assert.deepEqual([...reached].sort(), known)
})

test('the API loads nothing that talks to a cell or moves data: executors do that', () => {
  const reached = [...reach('services.ts'), ...reach('http/app.ts')]
  assert.ok(reached.includes('executors/call-pool.ts') && reached.includes('connections/previews.ts'))
  const forbidden = reached.filter((file) =>
    /^(engine\/execute|cell\/(zygote|call|frames|preview|validate|interactive|python-source|broker)|executors\/(call|run)-host)/.test(
      file,
    ),
  )
  assert.deepEqual(forbidden, [])
})

test('only the configuration reads the environment', () => {
  const readers = files.filter((file) => /process\.env\b/.test(readFileSync(path.join(source, file), 'utf8')))
  // The others pass the path, or the name of a cache, on to programs that they start.
  const allowed = [
    'config/config.ts',
    'config/client-config.ts',
    'main.js',
    'database/postgres-launcher.ts',
    'executors/process.ts',
    'cell/python.ts',
  ]
  assert.deepEqual(
    readers.filter((file) => !allowed.includes(file)),
    [],
  )
})

test('no file imports itself, directly or indirectly', () => {
  const edges = new Map(files.map((file) => [file, [] as string[]]))
  for (const { from, to, own } of imports) if (own && edges.has(to)) edges.get(from)!.push(to)
  const done = new Set<string>()
  const visit = (file: string, path: string[]): void => {
    assert.ok(!path.includes(file), `a cycle: ${[...path.slice(path.indexOf(file)), file].join(' → ')}`)
    if (done.has(file)) return
    for (const next of edges.get(file)!) visit(next, [...path, file])
    done.add(file)
  }
  for (const file of files) visit(file, [])
})
