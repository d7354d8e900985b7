/**
 * A destination with a mark, in one SQLite file: the load protocol at its smallest, for tests of the engine. It
 * keeps rows as JSON text, so there is nothing in it but the protocol. Any number of processes may use the file.
 *
 * Rows that must not be visible yet have their run in `staged_by`; publishing shows them, in one transaction with the mark.
 */
import { DatabaseSync } from 'node:sqlite'
import { ConnectorError, type Destination, type LoadContext, type Mark } from '../../src/connectors/contract.ts'
import type { Json } from '../../src/json/json.ts'
import { type Static, Type } from '../../src/schema.ts'

const settings = Type.Object(
  { file: Type.String(), table: Type.String({ default: 'rows' }) },
  { additionalProperties: false },
)

interface MarkRow {
  run_id: string
  seq: number
  attempt: number
  checkpoint: number
  cursor: string
}

export const sqliteDestination: Destination<typeof settings> = {
  kind: 'destination',
  name: 'sqlite_rows',
  display_name: 'SQLite rows',
  description: 'Rows in a SQLite file, for tests.',
  settings,
  capabilities: { write: ['append', 'replace', 'upsert'], encodings: ['ndjson'], commits: 'mark', quarantine: true },
  example_config: { name: 'sqlite_rows', config: { file: 'rows.sqlite' } },
  notes: '',

  async check({ config }) {
    openDatabase(config.file).close()
  },

  async fence({ config, pipeline_id, run_id, seq, attempt, token }) {
    const db = openDatabase(config.file)
    try {
      return inTransaction(db, () => {
        const found = db
          .prepare('SELECT run_id, seq, attempt, checkpoint, cursor FROM marks WHERE pipeline = ?')
          .get(pipeline_id)
        const mark = found ? readMark(found as unknown as MarkRow) : null
        const same = mark?.run_id === run_id
        if (mark && (same ? mark.attempt > attempt : mark.seq >= seq)) throw fenced()
        const checkpoint = same ? mark.checkpoint : 0
        db.prepare(
          `INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (pipeline) DO UPDATE
           SET run_id = excluded.run_id, seq = excluded.seq, attempt = excluded.attempt, token = excluded.token, checkpoint = excluded.checkpoint`,
        ).run(pipeline_id, run_id, seq, attempt, token, checkpoint, JSON.stringify(mark?.cursor ?? null))
        return mark && same ? { ...mark, attempt } : mark
      })
    } finally {
      db.close()
    }
  },

  async open(context) {
    return openLoad(context)
  },
}

function openLoad(context: LoadContext<Static<typeof settings>>): Awaited<ReturnType<Destination['open']>> {
  const { config, pipeline_id, run_id, token, sync, resumable } = context
  const db = openDatabase(config.file)
  const staged = sync.write === 'replace' || !resumable
  // What a source that starts over gave to an earlier attempt must go, and its count of checkpoints with it.
  if (!resumable) {
    inTransaction(db, () => {
      takeMark(db.prepare('UPDATE marks SET checkpoint = 0 WHERE pipeline = ? AND token = ?').run(pipeline_id, token))
      db.prepare('DELETE FROM rows WHERE staged_by = ?').run(run_id)
    })
  }
  let pending: string[] = []
  return {
    async write(page) {
      pending.push(...page.bytes.toString().split('\n').slice(0, -1))
    },
    async commit(checkpoint, cursor) {
      await context.fault('sqlite:commit')
      const shown = staged ? pending : await leaveOut(context, pending)
      await context.refused?.keep()
      inTransaction(db, () => {
        takeMark(
          db
            .prepare('UPDATE marks SET checkpoint = ?, cursor = ? WHERE pipeline = ? AND token = ? AND checkpoint = ?')
            .run(checkpoint, JSON.stringify(cursor), pipeline_id, token, checkpoint - 1),
        )
        for (const row of shown) insert(db, { table: config.table, stagedBy: staged ? run_id : null }, row, sync)
      })
      pending = []
    },
    async publish(checkpoint, cursor) {
      const found = db.prepare('SELECT row FROM rows WHERE staged_by = ? ORDER BY number').all(run_id)
      const rows = await leaveOut(
        context,
        found.map(({ row }) => String(row)),
      )
      await context.refused?.keep()
      inTransaction(db, () => {
        takeMark(
          db
            .prepare('UPDATE marks SET cursor = ? WHERE pipeline = ? AND token = ? AND checkpoint = ?')
            .run(JSON.stringify(cursor), pipeline_id, token, checkpoint),
        )
        if (!staged) return
        if (sync.write === 'replace') {
          if (rows.length === 0 && !sync.allow_empty)
            return context.log.warn('The read was empty, so the old rows stay.')
          db.prepare('DELETE FROM rows WHERE target = ? AND staged_by IS NULL').run(config.table)
        }
        db.prepare('DELETE FROM rows WHERE staged_by = ?').run(run_id)
        for (const row of rows) insert(db, { table: config.table, stagedBy: null }, row, sync)
      })
      db.close()
    },
    async abort() {
      db.close()
    },
  }
}

/** Records whose name begins with `refused` may be staged, but not become visible. */
async function leaveOut({ refused }: LoadContext<Static<typeof settings>>, rows: readonly string[]): Promise<string[]> {
  const taken: string[] = []
  for (const row of rows) {
    if (!row.includes('"name":"refused')) taken.push(row)
    else if (refused) await refused.add(row, 'its name cannot be stored')
    else throw new ConnectorError('destination', 'A record was refused.')
  }
  return taken
}

export function readRows(file: string, table = 'rows'): string[] {
  const db = openDatabase(file)
  const rows = db.prepare('SELECT row FROM rows WHERE target = ? AND staged_by IS NULL ORDER BY number').all(table)
  db.close()
  return (rows as { row: string }[]).map(({ row }) => row)
}

function openDatabase(file: string): DatabaseSync {
  const db = new DatabaseSync(file, { timeout: 10_000 })
  db.exec(`
    PRAGMA synchronous = OFF;
    CREATE TABLE IF NOT EXISTS marks (pipeline TEXT PRIMARY KEY, run_id TEXT, seq INT, attempt INT, token TEXT, checkpoint INT, cursor TEXT);
    CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, target TEXT, staged_by TEXT, key TEXT, row TEXT);
    CREATE INDEX IF NOT EXISTS rows_by_key ON rows (target, key);
  `)
  return db
}

function insert(
  db: DatabaseSync,
  { table, stagedBy }: { table: string; stagedBy: string | null },
  row: string,
  sync: LoadContext['sync'],
): void {
  const fields = JSON.parse(row)
  const key = sync.write === 'upsert' ? JSON.stringify(sync.primary_key.map((name) => fields[name])) : null
  if (key !== null && stagedBy === null)
    db.prepare('DELETE FROM rows WHERE target = ? AND key = ? AND staged_by IS NULL').run(table, key)
  db.prepare('INSERT INTO rows (target, staged_by, key, row) VALUES (?, ?, ?, ?)').run(table, stagedBy, key, row)
}

function inTransaction<T>(db: DatabaseSync, act: () => T): T {
  db.exec('BEGIN IMMEDIATE')
  try {
    const result = act()
    db.exec('COMMIT')
    return result
  } catch (error) {
    db.exec('ROLLBACK')
    throw error
  }
}

function readMark({ run_id, seq, attempt, checkpoint, cursor }: MarkRow): Mark {
  return { run_id, seq, attempt, checkpoint, cursor: JSON.parse(cursor) as Json }
}

function takeMark(result: { changes: number | bigint }): void {
  if (Number(result.changes) !== 1) throw fenced()
}

function fenced(): ConnectorError {
  return new ConnectorError('destination', 'This attempt was fenced: a newer one has the mark.')
}
