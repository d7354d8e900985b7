/**
 * What runs leave behind. While a run writes, it has a folder `_sluice/<pipeline>/<run>/` in the target, with a note for every
 * checkpoint; the last thing it does is to remove it. A folder of another run of the same pipeline is that of a run that
 * died: its objects that no manifest lists are deleted, then its folder.
 */
import type { ObjectWriterContext } from './context.ts'
import { changeManifest, type Manifest, readManifest } from './manifest.ts'

/** The names that we give. Nothing else is ever deleted, whatever a manifest or a listing says. */
const OWN = /(?:^|\/)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-\d+-\d+-\d+\.(?:jsonl|csv|parquet)(?:\.gz|\.zst)?$/

const DELETE_BATCH = 1000

export const notesFolder = (target: string, pipelineId: string): string => `${target}_sluice/${pipelineId}/`

/** At the start of a run. Returns the manifest. */
export async function sweepEarlier(context: ObjectWriterContext): Promise<Manifest> {
  const { bucket, target, pipeline_id, run_id, writer, log, fault } = context
  const folder = notesFolder(target, pipeline_id)
  const notes: string[] = []
  const runs = new Set<string>()
  for await (const { key } of bucket.list({ prefix: folder })) {
    const run = key.slice(folder.length).split('/')[0]!
    if (run === run_id) continue
    runs.add(run)
    notes.push(key)
  }
  const { manifest } = await readManifest(bucket, target)
  await deleteReplaced(context, manifest)
  if (runs.size === 0) return manifest
  // From here on a worker of these runs that is still alive can publish nothing.
  await fault('s3:fence')
  const fenced = await changeManifest(bucket, { target, pipeline_id, writer, log, apply: (found) => found })
  await fault('s3:sweep')
  const deleted = await deleteUnlisted(context, runs, fenced, target)
  await bucket.delete(notes)
  if (deleted > 0) log.info(`Removed ${deleted} objects that runs which did not finish had left.`)
  return fenced
}

/** After a run was published: what a replace has put out of use, what earlier attempts left, and the run's own notes. */
export async function sweepOwn(context: ObjectWriterContext, manifest: Manifest): Promise<void> {
  const { bucket, target, pipeline_id, run_id, writer, config } = context
  await deleteReplaced(context, manifest)
  // Without partitions the keys begin with the run.
  const prefix = config.partition_by.length === 0 ? `${target}${run_id}` : target
  if (writer.attempt > 1) await deleteUnlisted(context, new Set([run_id]), manifest, prefix)
  const notes: string[] = []
  for await (const { key } of bucket.list({ prefix: `${notesFolder(target, pipeline_id)}${run_id}/` })) notes.push(key)
  await bucket.delete(notes)
}

async function deleteReplaced({ bucket, target }: ObjectWriterContext, { replaced, objects }: Manifest): Promise<void> {
  const listed = new Set(objects.map(({ key }) => key))
  await bucket.delete(replaced.filter((key) => key.startsWith(target) && OWN.test(key) && !listed.has(key)))
}

async function deleteUnlisted(
  { bucket, fault }: ObjectWriterContext,
  runs: ReadonlySet<string>,
  { objects }: Manifest,
  prefix: string,
): Promise<number> {
  const listed = new Set(objects.map(({ key }) => key))
  let deleted = 0
  let stray: string[] = []
  const remove = async (): Promise<void> => {
    await fault('s3:delete')
    await bucket.delete(stray)
    deleted += stray.length
    stray = []
  }
  for await (const { key } of bucket.list({ prefix })) {
    const run = OWN.exec(key)?.[1]
    if (run !== undefined && runs.has(run) && !listed.has(key)) stray.push(key)
    if (stray.length >= DELETE_BATCH) await remove()
  }
  if (stray.length > 0) await remove()
  return deleted
}
