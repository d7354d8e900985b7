/** What the worker needs of the process it lives in. */
import type { Logger } from 'pino'
import type { BlobStore } from '../blobs/blobs.ts'
import type { Config } from '../config/config.ts'
import type { Database } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import type { Listener } from '../egress/guard.ts'
import type { Traces } from '../traces.ts'

export interface WorkerServices {
  config: Config
  log: Logger
  db: Database
  box: SecretBox
  blobs: BlobStore
  traces: Traces | null
  /** Our own listeners and database: no request of a tenant ever goes there. Read at every check. */
  ownAddresses: Listener[]
  /** What /readyz tells about the queue. */
  state: { queue: string; claimedAt?: number }
}
