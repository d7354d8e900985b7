/**
 * What is known in the database about the runs of a pipeline. ClickHouse has no transaction over rows and a mark, so the
 * marks do not say what is loaded (tokens do): they say which run is the newest, and how far publishing has come.
 *
 *   begun        fenced: an older run of the pipeline no longer publishes
 *   publishing   everything is staged, and nothing more is added. `stage` is the identity of the staged table
 *   published    the rows are visible, and the stage may be dropped
 *
 * Rows are only ever added; of a reading the furthest counts.
 */
import { ConnectorError, type FenceContext, type LoadContext } from '../../contract.ts'
import { escapeField } from '../../types/tsv.ts'
import type { Client } from '../shared/client.ts'
import { code, codeOf } from '../shared/errors.ts'
import { quoteTable } from '../shared/names.ts'
import { readInteger, readText } from '../shared/values.ts'

const states = ['begun', 'publishing', 'published'] as const
type MarkState = (typeof states)[number]

export interface PublishMark {
  state: MarkState
  stage: string
}

type Owner = Pick<FenceContext, 'pipeline_id' | 'run_id' | 'seq' | 'attempt' | 'installation'>
const NO_STAGE = '00000000-0000-0000-0000-000000000000'

const marksOf = ({ target }: Client): string => quoteTable({ database: target.database, table: '_sluice_marks' })

async function createMarks(client: Client): Promise<void> {
  await client.run({
    sql: `CREATE TABLE IF NOT EXISTS ${marksOf(client)} (
       pipeline_id String, run_id String, seq UInt64, attempt UInt32, reading UInt32, state UInt8, stage UUID, installation String,
       at DateTime('UTC') DEFAULT now()
     ) ENGINE = MergeTree ORDER BY (pipeline_id, run_id) TTL at + INTERVAL 90 DAY
     COMMENT 'Which runs of Sluice were published here. Keep it with the tables that they load.'`,
  })
}

export async function writeMark(
  client: Client,
  owner: Owner & { reading?: number },
  state: MarkState,
  stage = NO_STAGE,
): Promise<void> {
  const { pipeline_id, run_id, seq, attempt, reading = 0, installation } = owner
  const fields = [pipeline_id, run_id, seq, attempt, reading, states.indexOf(state), stage, installation]
  await client.run({
    sql: `INSERT INTO ${marksOf(client)} (pipeline_id, run_id, seq, attempt, reading, state, stage, installation) FORMAT TabSeparated`,
    rows: Buffer.from(`${fields.map((field) => escapeField(String(field))).join('\t')}\n`),
    settings: { async_insert: 0 },
  })
}

/** How far the publishing of this reading has come. */
export async function readMark(
  client: Client,
  { pipeline_id, run_id, reading }: Pick<LoadContext, 'pipeline_id' | 'run_id' | 'reading'>,
): Promise<PublishMark | null> {
  const [row] = await client.query(
    `SELECT state, toString(stage) FROM ${marksOf(client)}
     WHERE pipeline_id = {pipeline:String} AND run_id = {run:String} AND reading = {reading:UInt32} AND state > 0
     ORDER BY state DESC LIMIT 1`,
    { state: readInteger, stage: readText },
    { pipeline: pipeline_id, run: run_id, reading: String(reading) },
  )
  const state = states[row?.state ?? 0]
  return row === undefined || state === undefined ? null : { state, stage: row.stage }
}

/** Takes the pipeline for this run. */
export async function fence(client: Client, owner: Owner): Promise<void> {
  try {
    await refuseOlder(client, owner)
  } catch (error) {
    if (codeOf(error) !== code.unknownTable) throw error
    await createMarks(client)
  }
  await writeMark(client, owner, 'begun')
}

/** Throws where another run of the pipeline, with the same or a higher number, was here. */
export async function refuseOlder(client: Client, { pipeline_id, run_id, seq }: Owner): Promise<void> {
  const [newest] = await client.query(
    `SELECT run_id, seq FROM ${marksOf(client)} WHERE pipeline_id = {pipeline:String} AND run_id != {run:String}
     ORDER BY seq DESC LIMIT 1`,
    { run: readText, seq: readInteger },
    { pipeline: pipeline_id, run: run_id },
  )
  if (newest === undefined || newest.seq < seq) return
  throw new ConnectorError(
    'destination',
    `This attempt was fenced: run ${newest.run.slice(0, 36)} (number ${newest.seq}) of this pipeline was here, and this run is number ${seq}. If the database of the platform was restored from a backup, an operator has to run \`sluice restored\` once; otherwise a newer run has taken over`,
  )
}
