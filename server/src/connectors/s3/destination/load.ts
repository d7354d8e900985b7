/**
 * Loads a run, exactly once without a transaction (`commits: batch`):
 *
 *   1. Objects are put under names that nothing refers to. A checkpoint that is sent again puts the same objects again.
 *   2. The note of the checkpoint lists its objects. It is put after them: what a checkpoint that was cut off left is in no
 *      note. An attempt that takes the run over reads the notes of the checkpoints it did not load itself.
 *   3. Publishing puts the manifest, with the objects of all notes: one write makes the run visible, and for `replace` takes
 *      what was there before out of use. Doing it again changes nothing, because a run is in the manifest once.
 *   4. What is out of use is deleted. A crash before that leaves it in the manifest's `replaced`, and the run's notes in their
 *      folder; the next run finds both.
 */
import { readText } from '../../../s3/xml.ts'
import { ConnectorError, type Load, type LoadContext } from '../../contract.ts'
import { Bucket } from '../bucket.ts'
import { BatchWriter } from './batch-writer.ts'
import type { ObjectsWriter, ObjectWriterContext } from './context.ts'
import { FileWriter } from './file-writer.ts'
import { changeManifest, type Manifest, type ManifestObject, readManifest } from './manifest.ts'
import { type DestinationSettings, targetOf } from './settings.ts'
import { notesFolder, sweepEarlier, sweepOwn } from './sweep.ts'

const NOTE_BYTES = 4 * 1024 * 1024

export async function openLoad(given: LoadContext<DestinationSettings>): Promise<Load> {
  const { run_id, seq, attempt, installation } = given
  const context: ObjectWriterContext = {
    ...given,
    // A spread would lose what the methods of a class instance are bound to.
    fault: (point) => given.fault(point),
    bucket: new Bucket(given, 'destination', 'run'),
    target: targetOf(given.config, given.stream),
    writer: { run_id, seq, attempt, installation },
  }
  const found = await sweepEarlier(context)
  await context.bucket.put(`${notesOf(context)}begun`, '')
  const batch: ObjectsWriter = given.table
    ? new FileWriter(context, found.columns)
    : new BatchWriter(context, found.columns)
  /** The notes of checkpoints that this attempt loaded. */
  const notes = new Map<number, ManifestObject[]>()
  return {
    ...(batch instanceof FileWriter ? { convert: (table) => batch.convert(table) } : {}),

    write: (page) => batch.write(page),

    async commit(checkpoint) {
      const objects = await batch.finish()
      await given.fault('s3:note')
      if (objects.length > 0) await putNote(context, checkpoint, objects)
      await given.fault('s3:noted')
      notes.set(checkpoint, objects)
    },

    async publish(last) {
      await batch.close()
      const objects = await collectNotes(context, last, notes)
      const manifest = await publishObjects(context, { objects, batch, deleted: new Set(found.replaced) })
      await given.fault('s3:published')
      await sweepOwn(context, manifest)
    },

    abort: () => batch.close(),
  }
}

const notesOf = ({ target, pipeline_id, run_id }: ObjectWriterContext): string =>
  `${notesFolder(target, pipeline_id)}${run_id}/`

async function putNote(context: ObjectWriterContext, checkpoint: number, objects: ManifestObject[]): Promise<void> {
  await context.bucket.put(`${notesOf(context)}${context.reading}-${checkpoint}`, JSON.stringify(objects))
}

/** The objects of all checkpoints, those of earlier attempts included. */
async function collectNotes(
  context: ObjectWriterContext,
  last: number,
  own: ReadonlyMap<number, ManifestObject[]>,
): Promise<ManifestObject[]> {
  const { bucket, reading } = context
  const all = new Map(own)
  const prefix = `${notesOf(context)}${reading}-`
  if (own.size < last) {
    for await (const { key } of bucket.list({ prefix })) {
      const checkpoint = Number(key.slice(prefix.length))
      if (checkpoint <= last && !all.has(checkpoint)) all.set(checkpoint, await readNote(context, key))
    }
  }
  return [...all].sort(([one], [other]) => one - other).flatMap(([, objects]) => objects)
}

async function readNote({ bucket, run_id, target }: ObjectWriterContext, key: string): Promise<ManifestObject[]> {
  const objects = JSON.parse(await readText((await bucket.open({ key })).body, NOTE_BYTES)) as ManifestObject[]
  const isOwn = (object: ManifestObject): boolean => object.run_id === run_id && object.key.startsWith(target)
  if (Array.isArray(objects) && objects.every(isOwn)) return objects
  throw new ConnectorError('destination', 'A note of this run was changed by somebody else; run again.')
}

interface Publication {
  objects: ManifestObject[]
  batch: ObjectsWriter
  /** What earlier runs replaced, and this one has deleted when it began. */
  deleted: ReadonlySet<string>
}

async function publishObjects(context: ObjectWriterContext, publication: Publication): Promise<Manifest> {
  const { objects, deleted } = publication
  const { columns } = publication.batch
  const { bucket, target, pipeline_id, run_id, reading, writer, sync, log, config, schema } = context
  const replaces = sync.write === 'replace'
  if (objects.length === 0 && replaces && !sync.allow_empty) {
    log.warn('The source returned no records, so the old objects stay.')
    return (await readManifest(bucket, target)).manifest
  }
  const listed = new Set(objects.map(({ key }) => key))
  const kept = config.format === 'jsonl' || columns.kept.length === 0 ? null : columns.kept
  await context.fault('s3:manifest')
  const manifest = await changeManifest(bucket, {
    target,
    pipeline_id,
    writer,
    log,
    apply(found) {
      // An earlier attempt published it and died before that was saved; its notes may be gone.
      if (found.objects.some(({ key }) => key.includes(`${run_id}-${reading}-`))) return found
      const others = found.objects.filter((object) => object.run_id !== run_id)
      return {
        ...found,
        columns: kept ?? found.columns,
        objects: replaces ? objects : [...others, ...objects],
        replaced: [
          ...found.replaced.filter((key) => !deleted.has(key)),
          ...(replaces ? others.map(({ key }) => key) : []),
        ].filter((key) => !listed.has(key)),
      }
    },
  })
  if (kept && JSON.stringify(kept) !== JSON.stringify(schema)) context.saveSchema(kept, columns.changes)
  return manifest
}
