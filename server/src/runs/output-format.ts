/** What the output of a run is, by the type that was stored with it. */
interface StoredOutput {
  output_type: string
  output_file: string
}

export type OutputFormat = 'jsonl' | 'csv' | 'tsv' | 'parquet'

const FORMATS: Record<string, OutputFormat> = {
  'application/x-ndjson': 'jsonl',
  'text/csv': 'csv',
  'text/tab-separated-values': 'tsv',
  'application/vnd.apache.parquet': 'parquet',
}

const DATABASES: Record<string, 'duckdb' | 'sqlite'> = {
  'application/vnd.duckdb': 'duckdb',
  'application/vnd.sqlite3': 'sqlite',
}

export const isCompressed = ({ output_type }: StoredOutput): boolean => output_type === 'application/gzip'

/** Null if it is not a file of records. */
export function formatOf(output: StoredOutput): OutputFormat | null {
  if (isCompressed(output)) return output.output_file.endsWith('.csv.gz') ? 'csv' : 'jsonl'
  return FORMATS[output.output_type] ?? null
}

/** The source that reads it, if it is a whole database. */
export const databaseOf = ({ output_type }: StoredOutput): string | null => DATABASES[output_type] ?? null
