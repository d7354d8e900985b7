/** The services that the worker needs from its process. */
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
  /** Our own listeners and database, which no tenant request may reach. Read at every check. */
  ownAddresses: Listener[]
  /** For /readyz: which periodic work failed the last time, and when this worker last looked for runs. */
  state: { failing: Set<string>; claimedAt?: number }
}
