/**
 * A destination without any transaction: a folder of objects, as a bucket would be. It shows `commits: batch` at its
 * smallest. Any number of processes may use the folder; an object is put whole or not at all, and never changed.
 *
 *   batches/<run>/<reading>-<n>.jsonl     a batch, by its identity. Put again, it is the same object.
 *   manifests/<seq>.json                  put last, once for a run: the batches that make it up. Readers go by these alone.
 */
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import {
  batchId,
  ConnectorError,
  type Destination,
  type Load,
  type LoadContext,
} from '../../src/connectors/contract.ts'
import { type Static, Type } from '../../src/schema.ts'

const settings = Type.Object({ folder: Type.String() }, { additionalProperties: false })
type Settings = Static<typeof settings>

interface Manifest {
  run_id: string
  replaces: boolean
  batches: string[]
}

export const objectDestination: Destination<typeof settings> = {
  kind: 'destination',
  name: 'objects',
  display_name: 'Objects',
  description: 'Objects in a folder, for tests.',
  settings,
  capabilities: { write: ['append', 'replace'], encodings: ['ndjson'], commits: 'batch', quarantine: true },
  example_config: { name: 'objects', config: { folder: 'bucket' } },
  notes: '',

  async check({ config }) {
    mkdirSync(config.folder, { recursive: true })
  },

  async fence() {
    return null
  },

  async open(context) {
    return openLoad(context)
  },
}

function openLoad(context: LoadContext<Settings>): Load {
  const { config, run_id, reading, seq, sync } = context
  const manifest = path.join(config.folder, 'manifests', `${String(seq).padStart(12, '0')}.json`)
  let pending: Buffer[] = []
  return {
    async write({ bytes }) {
      pending.push(bytes)
    },
    async commit(checkpoint) {
      const bytes = await leaveOut(context, Buffer.concat(pending))
      pending = []
      await context.fault('objects:put')
      if (bytes.length > 0) put(path.join(config.folder, 'batches', `${batchName(context, checkpoint)}.jsonl`), bytes)
      await context.fault('objects:put-done')
    },
    async publish(last) {
      const names = Array.from({ length: last }, (_, at) => batchName(context, at + 1))
      const batches = names.filter((name) => existsSync(path.join(config.folder, 'batches', `${name}.jsonl`)))
      if (sync.write === 'replace' && batches.length === 0 && !sync.allow_empty)
        return context.log.warn('The read was empty, so the old rows stay.')
      await context.fault('objects:manifest')
      const whole: Manifest = { run_id, replaces: sync.write === 'replace', batches }
      put(manifest, Buffer.from(JSON.stringify(whole)))
      await context.fault('objects:manifest-done')
      sweep(config.folder, run_id, reading)
    },
    async abort() {},
  }
}

/** Refuses records whose name begins with `refused`. */
async function leaveOut({ refused }: LoadContext<Settings>, bytes: Buffer): Promise<Buffer> {
  const lines = bytes.toString().split('\n').slice(0, -1)
  const bad = lines.filter((line) => line.includes('"name":"refused'))
  if (bad.length === 0) return bytes
  if (!refused) throw new ConnectorError('destination', 'A record was refused.')
  for (const line of bad) await refused.add(line, 'its name cannot be stored')
  return Buffer.from(
    lines
      .filter((line) => !bad.includes(line))
      .map((line) => `${line}\n`)
      .join(''),
  )
}

/** The identity as a name: its last three parts, because the folder belongs to the pipeline. */
function batchName(context: LoadContext<Settings>, checkpoint: number): string {
  const [, run, reading, number] = batchId(context, checkpoint).split('/')
  return `${run}/${reading}-${number}`
}

/** Puts an object if there is none. An existing one stays: its name identifies its content. */
function put(file: string, bytes: Buffer): void {
  mkdirSync(path.dirname(file), { recursive: true })
  const draft = `${file}.${process.pid}.${Math.random()}`
  writeFileSync(draft, bytes)
  try {
    linkSync(draft, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    if (!readFileSync(file).equals(bytes)) throw new Error(`a batch came twice with different rows: ${file}`)
  } finally {
    rmSync(draft)
  }
}

/** Batches of abandoned readings. */
function sweep(folder: string, runId: string, reading: number): void {
  const batches = path.join(folder, 'batches', runId)
  if (!existsSync(batches)) return
  for (const name of readdirSync(batches)) if (!name.startsWith(`${reading}-`)) rmSync(path.join(batches, name))
}

export function readObjects(folder: string): string[] {
  const manifests = path.join(folder, 'manifests')
  if (!existsSync(manifests)) return []
  const all = readdirSync(manifests)
    .filter((name) => name.endsWith('.json'))
    .sort()
    .map((name) => JSON.parse(readFileSync(path.join(manifests, name), 'utf8')) as Manifest)
  const from = all.findLastIndex(({ replaces }) => replaces)
  return all
    .slice(Math.max(0, from))
    .flatMap(({ batches }) => batches)
    .flatMap((name) =>
      readFileSync(path.join(folder, 'batches', `${name}.jsonl`), 'utf8')
        .split('\n')
        .slice(0, -1),
    )
}
