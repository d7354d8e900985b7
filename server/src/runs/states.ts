/**
 * The states of a run and every move between them. A move is one conditional update: it names the state it leaves and,
 * once a worker holds the run, the attempt. Whoever lost the run in the meantime (paused, partitioned, slow) matches no
 * row and changes nothing, so a cancel and a finish cannot both win.
 *
 *   from      to         move       when
 *   –         pending    trigger    somebody asks, or the schedule does
 *   pending   running    claim      a worker takes it: the attempt grows and a lease begins
 *   running   success    finish     everything was read, loaded and published
 *   running   failed     finish     a failure that trying again does not mend, or the last try
 *   running   pending    retry      a failure that can pass; it waits for its back-off
 *   running   pending    hand over  the worker shuts down, or was cut off from the database; not counted against the run
 *   running   pending    lose       the lease ran out: the worker is dead or cut off
 *   running   failed     lose       … for the third time without a checkpoint in between
 *   pending   cancelled  cancel     somebody cancels before it began
 *   running   cancelled  cancel     somebody cancels while it runs
 *
 * Locks are always taken in this order: the run, its pipeline, the next run of that pipeline. Making the next run ready
 * (`ready_next_run`, migration 0010) happens under the pipeline's lock, as does the insertion of a new one; so neither can
 * miss the other. A claim waits for none of these locks.
 */

export const RUN_STATUSES = ['pending', 'running', 'success', 'failed', 'cancelled'] as const
export type RunStatus = (typeof RUN_STATUSES)[number]

export const moves = [
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

export const isFinal = (status: RunStatus): boolean =>
  status === 'success' || status === 'failed' || status === 'cancelled'

/** Workers that a run may lose one after the other without coming further; the last of them fails it. */
export const MAX_LOST_ATTEMPTS = 3
