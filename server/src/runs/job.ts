/** Builds the job for an executor from the claimed row and the configuration pinned with it. */
import { randomUUID } from 'node:crypto'
import type { StoredPart } from '../blobs/parts.ts'
import { isOwnPart } from '../blobs/run-keys.ts'
import { findReadableOutputs } from '../connections/readable-outputs.ts'
import { outputsOf } from '../connections/references.ts'
import { ConnectorError } from '../connectors/contract.ts'
import { readKeptColumns } from '../connectors/kept-columns.ts'
import { findDestination, findSource } from '../connectors/registry.ts'
import { sql } from '../database/database.ts'
import { retryWhileUnavailable } from '../database/retry-while-unavailable.ts'
import { type Fingerprint, findChanges, readFingerprint } from '../engine/fingerprint.ts'
import type { Job } from '../engine/job.ts'
import type { SourceLanguage } from '../executors/messages.ts'
import { makeFingerprint } from '../pipelines/fingerprint.ts'
import type { ConfiguredAttempt } from './attempt.ts'
import type { ClaimedRun } from './claim.ts'
import type { UsableConfig } from './pinned-config.ts'

export async function makeJob(attempt: ConfiguredAttempt): Promise<Job> {
  const { run } = attempt
  const { config } = attempt.pinned
  const fingerprint = makeFingerprint(attempt.services.box, run.organization_id, config)
  return {
    run_id: run.id,
    seq: run.seq,
    attempt: run.attempt,
    token: randomUUID(),
    installation: run.installation,
    organization_id: run.organization_id,
    // The cursor of such a run is not one of the pipeline, so it has a mark of its own.
    pipeline_id: isBeside(config) ? run.id : run.pipeline_id,
    source: await withCode(attempt),
    destination: { name: config.destination.name, config: config.destination.config },
    sync: config.sync,
    columns: config.columns,
    keep_output: config.run.keep_output ?? true,
    fingerprint,
    state: config.range ? null : keptState(run),
    ...(config.range && { range: config.range }),
    ...(config.replays !== undefined && { replays: true }),
    resume: resumePoint(run),
    schema: keptSchema(run, fingerprint),
    ...(await findOutputs(attempt)),
    ...(await findResent(attempt)),
    previous: await findPrevious(attempt, fingerprint.destination),
  }
}

const isBeside = ({ resends, replays, range }: UsableConfig): boolean =>
  resends !== undefined || replays !== undefined || range !== undefined

const keptState = (run: ClaimedRun): Job['state'] =>
  run.state_seq === null
    ? null
    : { seq: run.state_seq, cursor: run.state_cursor, fingerprint: readFingerprint(run.state_fingerprint) }

/** Columns that were kept for another source or destination do not apply to this run. */
function keptSchema({ schema_columns, schema_fingerprint }: ClaimedRun, now: Fingerprint): Job['schema'] {
  if (schema_columns === null || findChanges(readFingerprint(schema_fingerprint), now).length > 0) return null
  return readKeptColumns(schema_columns)
}

/** The source with the code of the pinned version. */
async function withCode({ services, run, pinned }: ConfiguredAttempt): Promise<Job['source']> {
  const { custom, overrides: _, ...source } = pinned.config.source
  if (!custom) return source
  if (custom.code !== undefined) return { ...source, custom: { ...custom, code: custom.code } }
  const row = await retryWhileUnavailable(() =>
    services.db.control.first<{ code: string; language: SourceLanguage }>(sql`
      SELECT v.code, c.language FROM custom_source_versions v JOIN custom_sources c ON c.id = v.custom_source_id
       WHERE v.custom_source_id = ${custom.id} AND v.version = ${custom.version} AND c.organization_id = ${run.organization_id}`),
  )
  if (!row)
    throw new ConnectorError(
      'config',
      `The source '${source.name}' was deleted after this run was triggered; choose another source, or create it again under that name.`,
    )
  return { ...source, custom: { ...custom, ...row } }
}

const resumePoint = ({ checkpoint, cursor, parts, quarantine_parts }: ClaimedRun): Job['resume'] =>
  checkpoint === 0 ? null : { checkpoint, cursor, parts, quarantine: quarantine_parts ?? [] }

async function findResent({ services, run, pinned }: ConfiguredAttempt): Promise<Pick<Job, 'resends'>> {
  const { resends } = pinned.config
  if (resends === undefined) return {}
  const row = await retryWhileUnavailable(() =>
    services.db.control.first<{ quarantine_parts: StoredPart[] }>(sql`
      SELECT quarantine_parts FROM runs
       WHERE id = ${resends} AND organization_id = ${run.organization_id} AND finished_at IS NOT NULL AND quarantine_parts IS NOT NULL`),
  )
  const own = { id: resends, organization_id: run.organization_id }
  if (!row?.quarantine_parts.every(({ key }) => isOwnPart(own, key)))
    throw new ConnectorError('source', 'The quarantine has expired since this run was triggered.')
  return { resends: row.quarantine_parts }
}

/** Only outputs of the organization's own runs are handed over, and only those that the source names. */
async function findOutputs({
  services,
  run,
  pinned,
}: ConfiguredAttempt): Promise<Pick<Job, 'outputs' | 'output_columns'>> {
  const { source } = pinned.config
  const wanted = source.custom ? [] : outputsOf(findSource(source.name), source.config)
  const find = () => findReadableOutputs(services.db, run.organization_id, wanted)
  const { parts, columns } = await retryWhileUnavailable(find)
  return { outputs: parts, output_columns: columns }
}

/**
 * The file that the run goes on from: the output of the last success, if that run had the same target. A replay into
 * another destination left the pipeline's own file as it was. Removing the state
 * of the pipeline by hand gives up a file that is gone, so that the run may start over.
 */
async function findPrevious(
  { services, run, pinned }: ConfiguredAttempt,
  target: string,
): Promise<NonNullable<Job['previous']> | null> {
  if (!findDestination(pinned.config.destination.name)?.buildOutput) return null
  return retryWhileUnavailable(async () => {
    const last = await services.db.control.first<{ id: string; seq: number; output_target: string | null }>(sql`
      SELECT id, seq, output_target FROM runs
       WHERE pipeline_id = ${run.pipeline_id} AND organization_id = ${run.organization_id} AND status = 'success'
         AND (triggered_by <> 'replay' OR output_target = ${target})
       ORDER BY seq DESC LIMIT 1`)
    if (last?.output_target !== target) return null
    const { parts } = await findReadableOutputs(services.db.control, run.organization_id, [last.id])
    const kept = parts[last.id] ?? null
    const givenUp = run.state_seq !== null && run.state_seq > last.seq && run.state_cursor === null
    return kept === null && givenUp ? null : { run_id: last.id, parts: kept }
  })
}
