/**
 * The load of one attempt, and why it loads every row exactly once without a transaction (`commits: batch`):
 *
 *   1. The pages of a batch are held until the engine has stored it, because what is sent must be what can be sent again.
 *   2. A batch goes into a stage that nobody reads, in chunks. Each is one INSERT and one block, with a token made of the
 *      batch and its number: the server leaves out a block whose token it has seen. So a batch that is sent again, after a
 *      crash or by a zombie, changes nothing.
 *   3. Publishing makes the stage visible and can be repeated (publish.ts). From its mark on nothing more is staged.
 *
 * Nothing of a run is visible before that, whether its source resumes or not.
 */
import { batchId, ConnectorError, type Load, type LoadContext, type Page } from '../../contract.ts'
import type { Client } from '../shared/client.ts'
import { code, codeOf } from '../shared/errors.ts'
import { quoteName, quoteTable, type TableName } from '../shared/names.ts'
import { readText } from '../shared/values.ts'
import { cutChunks } from './chunks.ts'
import { byName, describeColumn, keptColumn } from './columns.ts'
import { insertSettings } from './insert.ts'
import { type PublishMark, readMark, refuseOlder, writeMark } from './marks.ts'
import { makeVisible } from './publish.ts'
import { createRowEncoder, type RowEncoder } from './row-encoder.ts'
import {
  createStage,
  ensureWindow,
  fenced,
  hasVersion,
  matchStage,
  type StagePlan,
  stageName,
  sweepStages,
} from './stage.ts'
import { countRows, dropTable, readTable, type TableFacts, VERSION } from './table.ts'
import { checkKey, checkTarget } from './target.ts'
import { appendField } from './transcode.ts'

/** A batch is held in memory, so a checkpoint is asked for when it has this much. */
const HOLD_BYTES = 16 * 1024 * 1024
/** A version is the run's number, the checkpoint and the chunk, in this many bits. */
const CHECKPOINT_BITS = 20n
const CHUNK_BITS = 12n

export async function openLoad(client: Client, context: LoadContext, target: TableName): Promise<Load> {
  const load = new LoadAttempt(client, context, target)
  await load.prepare()
  return load
}

class LoadAttempt implements Load {
  readonly #client: Client
  readonly #context: LoadContext
  readonly #target: TableName
  readonly #key: readonly string[]
  #plan!: StagePlan
  #stage: TableFacts | null = null
  #encoder: RowEncoder | null = null
  /** Set once publishing has begun: every batch is staged. */
  #mark: PublishMark | null = null
  #held: Buffer[] = []
  #heldBytes = 0
  #asked = false

  constructor(client: Client, context: LoadContext, target: TableName) {
    this.#client = client
    this.#context = context
    this.#target = target
    this.#key = context.sync.write === 'upsert' ? context.sync.primary_key : []
  }

  async prepare(): Promise<void> {
    const client = this.#client
    const context = this.#context
    this.#mark = await readMark(client, context)
    if (this.#mark?.state === 'published') return
    await sweepStages(client, context)
    const target = await readTable(client, this.#target)
    if (context.sync.write === 'replace') await refuseOtherDatabase(client)
    if (target !== null) checkTarget(target, context)
    const inserts = target !== null && target.views > 0 && context.sync.write !== 'replace'
    if (target !== null && target.views > 0 && context.sync.write === 'replace')
      context.log.warn(
        `${this.#target.table} has materialized views, which see nothing of rows that replace others; fill them anew yourself.`,
      )
    this.#plan = { stage: stageName(client.target.database, context), target, key: this.#key, inserts }
    this.#stage = await readTable(client, this.#plan.stage)
    if (this.#stage === null && context.checkpoint > 0 && this.#mark === null) throw fenced()
    if (this.#mark !== null) return
    if (this.#stage !== null) await ensureWindow(client, this.#stage)
    this.#openEncoder(target)
  }

  #openEncoder(target: TableFacts | null): void {
    const { sync, schema, encoding, columns } = this.#context
    const existing = target?.columns ?? schema?.map(keptColumn) ?? null
    // Rows that an earlier attempt staged have already shaped the stage.
    const shaped = this.#stage === null ? existing : [...byName([...(existing ?? []), ...this.#stage.columns]).values()]
    this.#encoder = createRowEncoder({
      encoding,
      declared: columns,
      existing: shaped === null ? null : shaped.filter(({ name }) => name !== VERSION),
      generated: target?.generated ?? new Set(),
      contract: sync.schema_change,
      key: this.#key,
    })
  }

  async write(page: Page): Promise<void> {
    if (this.#mark !== null) return
    this.#held.push(page.bytes)
    this.#heldBytes += page.bytes.length
    if (this.#heldBytes < HOLD_BYTES || this.#asked) return
    this.#asked = true
    this.#context.requestCheckpoint()
  }

  async commit(checkpoint: number): Promise<void> {
    if (this.#mark !== null) return
    const pages = this.#held
    this.#held = []
    this.#heldBytes = 0
    this.#asked = false
    let number = 0
    for (const chunk of cutChunks(pages)) {
      await this.#insert(chunk, checkpoint, number)
      number += 1
    }
  }

  async #insert(chunk: Buffer, checkpoint: number, number: number): Promise<void> {
    const { rows, columns } = this.#encoder!.encode(chunk)
    checkKey(columns, this.#context)
    if (this.#stage === null) {
      const made = await createStage(this.#client, this.#plan, columns)
      await this.#context.fault('clickhouse.stage.made')
      await ensureWindow(this.#client, made)
      this.#stage = made
    }
    await matchStage(this.#client, this.#stage, columns)
    await this.#context.fault('clickhouse.staging')
    const versioned = hasVersion(this.#plan)
    const list = [...columns.map(({ name }) => name), ...(versioned ? [VERSION] : [])].map(quoteName).join(', ')
    try {
      await this.#client.run({
        sql: `INSERT INTO ${quoteTable(this.#plan.stage)} (${list}) FORMAT TabSeparated`,
        rows: versioned ? appendField(rows, versionOf(this.#context.seq, checkpoint, number)) : rows,
        settings: insertSettings(`${batchId(this.#context, checkpoint)}/${number}`),
      })
    } catch (error) {
      throw codeOf(error) === code.unknownTable ? fenced() : error
    }
  }

  async publish(): Promise<void> {
    const context = this.#context
    if (this.#mark?.state !== 'published') {
      await refuseOlder(this.#client, context)
      const changes = await this.#publishStage()
      await context.fault('clickhouse.publish.done')
      await writeMark(this.#client, context, 'published', this.#mark?.stage)
      await context.fault('clickhouse.publish.published')
      if (changes !== null) await this.#reportSchema(changes)
      for (const sentence of this.#encoder?.report() ?? []) context.log.warn(sentence)
    }
    await dropTable(this.#client, stageName(this.#client.target.database, context))
  }

  /** Null if there was nothing to publish. */
  async #publishStage(): Promise<string[] | null> {
    const { sync, log, fault } = this.#context
    if (this.#mark === null) {
      if (sync.write === 'replace' && !sync.allow_empty && (await this.#isEmpty())) {
        log.warn('The source returned no records, so the old rows stay.')
        return null
      }
      await this.#prepareEmpty()
      if (this.#stage === null) return null
      await writeMark(this.#client, this.#context, 'publishing', this.#stage.uuid)
      await fault('clickhouse.publish.marked')
      this.#mark = { state: 'publishing', stage: this.#stage.uuid }
    }
    // Renamed or exchanged: an earlier attempt did it, and died before it could say so.
    if (this.#stage?.uuid !== this.#mark.stage) return []
    const { inserts } = this.#plan
    return makeVisible({
      client: this.#client,
      context: this.#context,
      stage: this.#stage,
      target: this.#target,
      inserts,
    })
  }

  async #isEmpty(): Promise<boolean> {
    return this.#stage === null || (await countRows(this.#client, this.#stage.name)) === 0
  }

  /** A table without rows: to replace others with nothing, or because the source has columns but no rows. */
  async #prepareEmpty(): Promise<void> {
    if (this.#stage !== null) return
    const columns = this.#encoder?.shape.written() ?? []
    const replaces = this.#context.sync.write === 'replace'
    if (this.#plan.target === null ? columns.length === 0 : !replaces) return
    if (this.#plan.target === null) checkKey(columns, this.#context)
    this.#stage = await createStage(this.#client, this.#plan, columns)
  }

  async #reportSchema(changes: string[]): Promise<void> {
    const { log, schema, saveSchema } = this.#context
    if (changes.length === 0 && schema !== null) return
    const found = await readTable(this.#client, this.#target)
    if (found === null) return
    for (const change of changes) log.info(`${this.#target.table}: ${change}.`)
    saveSchema(found.columns.filter(({ name }) => name !== VERSION).map(describeColumn), changes)
  }

  /** The stage stays for the next attempt; if there is none, the next run drops it. */
  async abort(): Promise<void> {
    this.#held = []
  }
}

/** Higher for every later chunk of a pipeline, and the same for one that is sent again. */
function versionOf(seq: number, checkpoint: number, chunk: number): string {
  const fits = BigInt(checkpoint) < 1n << CHECKPOINT_BITS && BigInt(chunk) < 1n << CHUNK_BITS && seq < 2 ** 31
  if (!fits)
    throw new ConnectorError(
      'limit',
      'The run is too long to number its rows; load it in several runs, by an incremental sync',
    )
  return String((((BigInt(seq) << CHECKPOINT_BITS) + BigInt(checkpoint)) << CHUNK_BITS) + BigInt(chunk))
}

async function refuseOtherDatabase(client: Client): Promise<void> {
  const { database } = client.target
  const [found] = await client.query(
    'SELECT engine FROM system.databases WHERE name = {database:String}',
    { engine: readText },
    { database },
  )
  if (found?.engine === 'Atomic') return
  throw new ConnectorError(
    'config',
    `The database ${database} has the engine ${found?.engine ?? 'none'}, in which tables cannot be exchanged; replace needs one with the engine Atomic, which is the default`,
  )
}
