/** Builds the job for an executor from the claimed row and the configuration pinned with it. */
import { randomUUID } from 'node:crypto'
import { findReadableOutputs } from '../connections/readable-outputs.ts'
import { outputsOf } from '../connections/references.ts'
import { ConnectorError } from '../connectors/contract.ts'
import { readKeptColumns } from '../connectors/kept-columns.ts'
import { findSource } from '../connectors/registry.ts'
import { sql } from '../database/database.ts'
import { retryWhileUnavailable } from '../database/retry-while-unavailable.ts'
import { type Fingerprint, findChanges, readFingerprint } from '../engine/fingerprint.ts'
import type { Job } from '../engine/job.ts'
import { makeFingerprint } from '../pipelines/fingerprint.ts'
import type { ConfiguredAttempt } from './attempt.ts'
import type { ClaimedRun } from './claim.ts'

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
    pipeline_id: run.pipeline_id,
    source: await withCode(attempt),
    destination: { name: config.destination.name, config: config.destination.config },
    sync: config.sync,
    columns: config.columns,
    keep_output: config.run.keep_output ?? true,
    fingerprint,
    state: keptState(run),
    resume: resumePoint(run),
    schema: keptSchema(run, fingerprint),
    ...(await findOutputs(attempt)),
  }
}

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
    services.db.control.first<{ code: string }>(sql`
      SELECT v.code FROM custom_source_versions v JOIN custom_sources c ON c.id = v.custom_source_id
       WHERE v.custom_source_id = ${custom.id} AND v.version = ${custom.version} AND c.organization_id = ${run.organization_id}`),
  )
  if (!row)
    throw new ConnectorError(
      'config',
      `The source '${source.name}' was deleted after this run was triggered; choose another source, or create it again under that name.`,
    )
  return { ...source, custom: { ...custom, code: row.code } }
}

const resumePoint = ({ checkpoint, cursor, parts }: ClaimedRun): Job['resume'] =>
  checkpoint === 0 ? null : { checkpoint, cursor, parts }

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
