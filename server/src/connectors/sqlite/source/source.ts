/**
 * The sqlite source. A read copies the file to the worker and streams one SELECT. A whole table is read in any order, so it
 * cannot resume: the file at the address may have been replaced in between. An incremental read is in cursor order and can
 * resume.
 */
import type { DatabaseSync } from 'node:sqlite'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Type } from '../../../schema.ts'
import type { Page, ReadContext, Reading, Source, SourceContext } from '../../contract.ts'
import { readState } from '../../cursor/cursor-state.ts'
import { checkFile, fetchFile } from '../../database-file/fetch-file.ts'
import { type CursorPlan, planIncremental } from '../../database-file/incremental.ts'
import { describeRelation, type Relation } from '../../database-file/relation.ts'
import {
  AUTH_TYPES,
  canonicalPlace,
  eitherPlace,
  outputsOf,
  type PlaceSettings,
  placeSettings,
} from '../../database-file/settings.ts'
import { checkHead, explainSqlite, iterate, openForReading, quoteName, type Value } from '../database.ts'
import { sourceNotes } from '../notes.ts'
import { createDialect } from './cursor.ts'
import { writerOf } from './json-values.ts'
import { describeStream, listStreams } from './relations.ts'

const PAGE_CHARACTERS = 128 * 1024

const settings = Type.Object(placeSettings, { additionalProperties: false, either: eitherPlace })

export const sqliteSource: Source<typeof settings> = {
  kind: 'source',
  name: 'sqlite',
  display_name: 'SQLite',
  description: 'Tables and views of a SQLite database file, from the web or from the output of an earlier run.',
  streams: 'dynamic',
  auth_types: AUTH_TYPES,
  settings,
  canonical: (config) => ({ ...canonicalPlace(config) }),
  checkState: (state) => void readState(state),
  capabilities: { incremental: true, resumable: true, columns: false, encodings: ['ndjson'], ranges: true },
  example_config: {
    name: 'sqlite',
    stream: 'orders',
    authentication: { type: 'none', params: {} },
    config: { url: 'https://example.com/shop.sqlite' },
  },
  notes: sourceNotes,

  async check(context) {
    const { stream } = context
    if (stream === null) return checkFile(context, checkHead)
    await withDatabase(context, (db) => void describeStream(db, stream))
  },

  listStreams: (context) => withDatabase(context, listStreams),

  describe: (context, streams) =>
    withDatabase(context, (db) => streams.map((stream) => describeRelation(describeStream(db, stream)))),

  outputs: outputsOf,

  read: openReading,
}

type Context = SourceContext<PlaceSettings>

async function openDatabase(
  context: Context,
  temporary: 'memory' | 'file',
): Promise<{ db: DatabaseSync; close(): Promise<void> }> {
  const file = await fetchFile(context, checkHead)
  try {
    const db = openForReading(file.path, temporary)
    const close = (): Promise<void> => {
      db.close()
      return file.remove()
    }
    return { db, close }
  } catch (error) {
    await file.remove()
    throw error
  }
}

async function withDatabase<T>(context: Context, work: (db: DatabaseSync) => T): Promise<T> {
  try {
    const { db, close } = await openDatabase(context, 'memory')
    try {
      return work(db)
    } finally {
      await close()
    }
  } catch (error) {
    throw explain(error, context)
  }
}

function explain(error: unknown, { signal }: Context, stream?: string): unknown {
  if (signal.aborted) return signal.reason
  return explainSqlite(error, 'source', stream === undefined ? 'The file cannot be read' : `${stream} cannot be read`)
}

async function openReading(context: ReadContext<PlaceSettings>): Promise<Reading> {
  const { stream } = context
  let close = async (): Promise<void> => {}
  try {
    const opened = await openDatabase(context, 'file')
    const { db } = opened
    close = opened.close
    const relation = describeStream(db, stream)
    const plan =
      context.sync.mode === 'incremental' ? planIncremental(context, relation, createDialect(db, relation.from)) : null
    return { columns: relation.columns, resumable: plan !== null, pages: readPages(context, opened, relation, plan) }
  } catch (error) {
    await close()
    throw explain(error, context, stream)
  }
}

async function* readPages(
  context: ReadContext<PlaceSettings>,
  { db, close }: Awaited<ReturnType<typeof openDatabase>>,
  { columns, from, stream }: Relation,
  plan: CursorPlan | null,
): AsyncGenerator<Page> {
  const names = columns.map(({ name }) => quoteName(name))
  const list = [...names, ...(plan?.hidden ?? [])].join(', ')
  const rest = plan ? `${plan.where()} ${plan.order}` : ''
  const write = createRowWriter(columns)
  let text = ''
  let records = 0
  const takePage = (): Page => {
    const page = { bytes: Buffer.from(text), records, ...(plan ? { cursor: plan.ties.state() } : {}) }
    text = ''
    records = 0
    return page
  }
  try {
    for (const row of iterate(db, `SELECT ${list} FROM ${from} ${rest}`)) {
      if (plan && !plan.ties.admit(cursorText(row[columns.length]!), String(row[columns.length + 1]))) continue
      text += write(row)
      records += 1
      if (text.length < PAGE_CHARACTERS) continue
      yield takePage()
      // The rows come synchronously: others get their turn between two pages.
      await nextTurn()
      context.signal.throwIfAborted()
    }
    if (records > 0) yield takePage()
    plan?.reportEnd()
  } catch (error) {
    throw explain(error, context, stream)
  } finally {
    await close()
  }
}

const cursorText = (value: Value): string => (value === null ? '' : `=${String(value)}`)

function createRowWriter(columns: Relation['columns']): (row: readonly Value[]) => string {
  const fields = columns.map(({ name, type }) => ({ key: `${JSON.stringify(name)}:`, write: writerOf(type) }))
  return (row) => {
    let line = '{'
    for (let at = 0; at < fields.length; at += 1) {
      const { key, write } = fields[at]!
      const value = row[at]!
      line += `${at === 0 ? '' : ','}${key}${value === null ? 'null' : write(value)}`
    }
    return `${line}}\n`
  }
}
