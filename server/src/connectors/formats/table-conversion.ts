import type { OutputShape, Page } from '../contract.ts'
import type { ColumnFacts } from '../types/column-facts.ts'
import type { OutputColumn } from './output-columns.ts'

/** How a table becomes a Parquet file. */
export interface TableConversion {
  /** The columns of the file, given what is known about those of the table; asked again as more is known. */
  choose(facts: ColumnFacts[]): OutputColumn[]
  compression: OutputShape['compression'] | 'zstd'
  signal: AbortSignal
}

export interface ConvertedTable {
  /** Known once all pages were read. */
  columns(): OutputColumn[]
  /**
   * The bytes of one Parquet file, converted as they are asked for. All records count with the last page. Closes the table.
   */
  pages: AsyncIterable<Page>
}
