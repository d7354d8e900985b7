/**
 * The states of a run and every transition between them. A transition is one conditional update: it names the state it
 * leaves and, once a worker holds the run, the attempt (the fencing token). A process that lost the run in the meantime
 * (paused, partitioned, slow) matches no row and changes nothing, so a cancel and a finish cannot both win. Losing a run
 * takes several statements; it locks the row and checks the lease again before it changes anything (recover.ts).
 *
 *   from      to         name       when
 *   –         pending    trigger    manually, or by the schedule; a back-fill and a resend are triggered manually
 *   pending   running    claim      a worker takes it: `attempt` is incremented and a lease starts
 *   running   success    finish     everything was read, loaded and published
 *   running   failed     finish     a failure that a retry cannot fix, or the last attempt
 *   running   pending    retry      a transient failure; the run waits for its back-off
 *   running   pending    hand over  the worker shuts down, or was cut off from the database; does not count
 *   running   pending    lose       the lease expired: the worker is dead or cut off
 *   running   failed     lose       … for the third time without a checkpoint in between
 *   pending   cancelled  cancel     cancelled before it started
 *   running   cancelled  cancel     cancelled while running
 *
 * Locks are taken in this order: the run, its pipeline, the next run of that pipeline. Making the next run ready
 * (`ready_next_run`, migration 0010) and inserting a new one both happen under the pipeline's lock, so neither can miss the
 * other. A next run that is locked at that moment is skipped, and found by a periodic sweep. A claim waits for none of
 * these locks. Only deleting a pipeline breaks the order, for runs that were triggered while it waited for the pipeline;
 * it starts over if that deadlocks (delete-pipeline.ts).
 */

import { raw, type Statement } from '../database/sql.ts'

export const RUN_STATUSES = ['pending', 'running', 'success', 'failed', 'cancelled'] as const
export type RunStatus = (typeof RUN_STATUSES)[number]

export const transitions = [
  { from: null, to: 'pending', name: 'trigger' },
  { from: 'pending', to: 'running', name: 'claim' },
  { from: 'running', to: 'success', name: 'finish' },
  { from: 'running', to: 'failed', name: 'finish' },
  { from: 'running', to: 'pending', name: 'retry' },
  { from: 'running', to: 'pending', name: 'hand over' },
  { from: 'running', to: 'pending', name: 'lose' },
  { from: 'running', to: 'failed', name: 'lose' },
  { from: 'pending', to: 'cancelled', name: 'cancel' },
  { from: 'running', to: 'cancelled', name: 'cancel' },
] as const satisfies { from: RunStatus | null; to: RunStatus; name: string }[]

/**
 * The status of runs that are looked up by their ids. Written so that no partial index fits: to a planner whose statistics
 * were taken while nothing ran, reading all that is running seems cheaper than a key.
 */
export const isRunning = (run: 'r' | 'runs'): Statement => raw(`${run}.status || '' = 'running'`)

/** How many workers a run may lose in a row without making progress; the last of them fails it. */
export const MAX_LOST_ATTEMPTS = 3
