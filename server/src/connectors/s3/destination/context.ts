import type { LoadContext } from '../../contract.ts'
import type { Bucket } from '../bucket.ts'
import type { Writer } from './manifest.ts'
import type { DestinationSettings } from './settings.ts'

export interface ObjectWriterContext extends LoadContext<DestinationSettings> {
  bucket: Bucket
  /** What every key begins with. */
  target: string
  writer: Writer
}
