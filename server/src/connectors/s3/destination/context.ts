import type { LoadContext, Page } from '../../contract.ts'
import type { Bucket } from '../bucket.ts'
import type { ManifestObject, Writer } from './manifest.ts'
import type { ObjectColumns } from './object-columns.ts'
import type { DestinationSettings } from './settings.ts'

export interface ObjectWriterContext extends LoadContext<DestinationSettings> {
  bucket: Bucket
  /** What every key begins with. */
  target: string
  writer: Writer
}

/** Makes the objects of one checkpoint after the other. */
export interface ObjectsWriter {
  readonly columns: ObjectColumns
  write(page: Page): Promise<void>
  /** All objects of the checkpoint, once they are stored. */
  finish(): Promise<ManifestObject[]>
  close(): Promise<void>
}
