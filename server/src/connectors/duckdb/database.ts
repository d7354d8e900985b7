/**
 * DuckDB files in the locked-down engine (connectors/duckdb.ts): a file is attached from the one folder that the engine can
 * reach, and nothing in it, nor a query over it, can leave that folder.
 */
import { ConnectorError } from '../contract.ts'
import { type Engine, openEngine, quoteText } from '../duckdb.ts'

/**
 * Less than for files that are converted, because a run may take 256 MB in all: Node, the engine's code and what DuckDB
 * allocates beyond its limit are 190 of it. What does not fit is written to disk.
 */
const MEMORY_MB = 64

/** The name under which the file is attached. */
export const CATALOG = 'file'

const MAGIC = Buffer.from('DUCK')
const MAGIC_AT = 8

export function checkHead(head: Buffer): void {
  if (head.subarray(MAGIC_AT, MAGIC_AT + MAGIC.length).equals(MAGIC)) return
  if (head.length === 0) throw new ConnectorError('source', 'The file is empty, so it is no DuckDB database.')
  throw new ConnectorError(
    'source',
    'The file is no DuckDB database: it does not begin like one. If this is a web page, check the url.',
  )
}

interface AttachOptions {
  folder: string
  path: string
  signal: AbortSignal
  readOnly: boolean
}

/** The file becomes the default database. */
export async function attachFile({ folder, path, signal, readOnly }: AttachOptions): Promise<Engine> {
  const engine = await openEngine(folder, signal, { memoryMb: MEMORY_MB, keptMb: 1 })
  try {
    await engine.connection.run(`ATTACH ${quoteText(path)} AS ${CATALOG}${readOnly ? ' (READ_ONLY)' : ''}`)
    await engine.connection.run(`USE ${CATALOG}`)
    return engine
  } catch (error) {
    engine.close()
    throw error
  }
}

const KNOWN: [RegExp, string][] = [
  [/encrypt/i, 'It is encrypted; store it without encryption.'],
  [
    /version number|newer version|storage version/i,
    'It was written by a newer version of DuckDB than 1.5; write it with an older storage version, or export it as Parquet.',
  ],
  [
    /not a valid DuckDB|enough bytes|corrupt|checksum|deserializ|invalid block/i,
    'The database file is damaged; check it with DuckDB, and upload it again.',
  ],
  [/^Out of Memory/i, `It needs more than the ${MEMORY_MB} MB that a query may take; read less, or fewer columns.`],
  [/no space left|temp_directory_size/i, 'The disk of the worker is full; an operator has to free space.'],
]

const LONGEST_MESSAGE = 500

/** What went wrong, in our words; DuckDB's own, without paths, where it is about the query or a value. */
export function explainDuckdb(error: unknown, kind: 'source' | 'destination', what: string): unknown {
  if (error instanceof ConnectorError || !(error instanceof Error)) return error
  const known = KNOWN.find(([form]) => form.test(error.message))
  const said = error.message
    .slice(0, LONGEST_MESSAGE)
    .replace(/'?"?[^\s'"]*sluice-[^\s'"]*'?"?/g, 'the file')
    .split('\n')[0]
  return new ConnectorError(kind, `${what}. ${known?.[1] ?? `DuckDB says: ${said}`}`, { cause: error })
}
