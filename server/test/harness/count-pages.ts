/** What a function asks the database, and how many pages that reads. */
import type { Queryable, Statement } from '../../src/database/database.ts'

/** Executes what is asked, and notes each statement. */
export async function noteStatements<T>(
  db: Queryable,
  ask: (db: Queryable) => Promise<T>,
): Promise<{ result: T; statements: Statement[] }> {
  const statements: Statement[] = []
  const noting = (statement: Statement) => {
    statements.push(statement)
    return statement
  }
  const result = await ask({
    query: (statement) => db.query(noting(statement)),
    first: (statement) => db.first(noting(statement)),
    execute: (statement) => db.execute(noting(statement)),
  })
  return { result, statements }
}

/** Executes what is asked, and each of its statements once more to count. */
export const countPagesOf =
  (db: Queryable) =>
  async <T>(ask: (db: Queryable) => Promise<T>): Promise<{ result: T; pages: number }> => {
    const { result, statements } = await noteStatements(db, ask)
    let pages = 0
    for (const { text, values } of statements) {
      const row = await db.first<{ 'QUERY PLAN': { Plan: Record<string, number> }[] }>({
        text: `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`,
        values,
        name: '',
      })
      const { Plan } = row!['QUERY PLAN'][0]!
      pages += Plan['Shared Hit Blocks']! + Plan['Shared Read Blocks']!
    }
    return { result, pages }
  }
