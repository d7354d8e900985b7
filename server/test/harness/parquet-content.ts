import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { openEngine } from '../../src/connectors/duckdb.ts'

export interface ParquetContent {
  types: unknown[][]
  rows: unknown[][]
}

/** The columns of a Parquet file with their types, and its rows in order. */
export async function parquetContent(file: Buffer): Promise<ParquetContent> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-parquet-'))
  const engine = await openEngine(folder, AbortSignal.timeout(60_000))
  try {
    await writeFile(path.join(folder, 'file'), file)
    const ask = async (sql: string) => (await engine.connection.runAndReadAll(sql)).getRowsJson() as unknown[][]
    const from = `SELECT * FROM read_parquet('${folder}/file')`
    return { types: (await ask(`DESCRIBE ${from}`)).map((row) => row.slice(0, 2)), rows: await ask(from) }
  } finally {
    engine.close()
    await rm(folder, { recursive: true })
  }
}
