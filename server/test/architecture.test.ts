/** The rules of import, kept by reading the import statements of every file. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const source = path.resolve(import.meta.dirname, '../src')
const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))

interface Import {
  from: string
  /** A file of ours, by its path under src; else the name of a package. */
  to: string
  own: boolean
  /** Gone when the program runs. */
  typeOnly: boolean
  /** Loaded when it is needed, not with the file. */
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
const folderOf = (file: string) => (file.includes('/') ? file.split('/')[0]! : 'root')
const describe = ({ from, to }: Import) => `${from} imports ${to}`

/** Imports point down, or to the side. */
const LAYERS = [
  ['http', 'cli', 'scheduler'],
  ['pipelines', 'tenancy', 'identity', 'runs'],
  ['connectors', 'cell'],
  ['egress', 'storage'],
]
const levelOf = (folder: string) => LAYERS.findIndex((layer) => layer.includes(folder))

test('there is something to look at', () => {
  assert.ok(files.length > 80 && imports.length > 300)
  const missing = imports.filter(({ own, to }) => own && to.endsWith('.ts') && !files.includes(to))
  assert.deepEqual(missing.map(describe), [])
})

test('every folder has its place', () => {
  const folders = new Set(files.map(folderOf))
  folders.delete('root')
  assert.deepEqual(
    [...folders].filter((folder) => levelOf(folder) < 0),
    [],
  )
})

test('imports point one way', () => {
  const upward = imports.filter(({ from, to, own, typeOnly }) => {
    if (!own || typeOnly) return false
    const [here, there] = [levelOf(folderOf(from)), levelOf(folderOf(to))]
    return here >= 0 && there >= 0 && there < here
  })
  assert.deepEqual(upward.map(describe), [])
})

test('nothing but the command that starts it imports http', () => {
  const others = imports.filter(
    ({ from, to, own, typeOnly }) =>
      own && !typeOnly && folderOf(to) === 'http' && folderOf(from) !== 'http' && from !== 'cli/start.ts',
  )
  assert.deepEqual(others.map(describe), [])
})

test('nothing but main.ts imports the command line, and nothing below http imports the composition root', () => {
  const wrong = imports.filter(({ from, to, own, typeOnly }) => {
    if (!own || typeOnly) return false
    if (folderOf(to) === 'cli') return folderOf(from) !== 'cli' && from !== 'main.ts'
    return to === 'services.ts' && levelOf(folderOf(from)) > 0
  })
  assert.deepEqual(wrong.map(describe), [])
})

/** Everything that a file loads, directly or not. */
function reach(start: string): Set<string> {
  const seen = new Set([start])
  const next = [start]
  for (let file = next.pop(); file !== undefined; file = next.pop())
    for (const { to, own, typeOnly } of imports.filter(({ from }) => from === file)) {
      if (typeOnly) continue
      const name = own ? to : `package ${to}`
      if (seen.has(name)) continue
      seen.add(name)
      if (own) next.push(to)
    }
  return seen
}

test('what executes a run never reaches the database of the platform', () => {
  for (const start of ['runs/execute.ts', 'runs/executor.ts'].filter((file) => files.includes(file))) {
    const reached = reach(start)
    assert.ok(reached.size > 20, start)
    for (const forbidden of ['storage/database.ts', 'storage/embedded-postgres.ts', 'services.ts', 'config.ts'])
      assert.ok(!reached.has(forbidden), `${start} reaches ${forbidden}`)
  }
})

test('only the configuration reads the environment', () => {
  const readers = files.filter((file) => /process\.env\b/.test(readFileSync(path.join(source, file), 'utf8')))
  // The others hand the path, or the name of a cache, on to programs that they start.
  const allowed = ['config.ts', 'main.ts', 'storage/postgres-launcher.ts', 'runs/executor-pool.ts', 'cell/python.ts']
  assert.deepEqual(
    readers.filter((file) => !allowed.includes(file)),
    [],
  )
})

test('no file imports itself, however long the way round', () => {
  const edges = new Map(files.map((file) => [file, [] as string[]]))
  for (const { from, to, own, typeOnly, later } of imports)
    if (own && !typeOnly && !later && edges.has(to)) edges.get(from)!.push(to)
  const done = new Set<string>()
  const visit = (file: string, path: string[]): void => {
    assert.ok(!path.includes(file), `a cycle: ${[...path.slice(path.indexOf(file)), file].join(' → ')}`)
    if (done.has(file)) return
    for (const next of edges.get(file)!) visit(next, [...path, file])
    done.add(file)
  }
  for (const file of files) visit(file, [])
})
