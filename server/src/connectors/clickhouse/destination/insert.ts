/** How rows are inserted, so that a statement is one block, is recognised when it is sent again, and changes no value. */
import { CHUNK_ROWS } from './chunks.ts'

/** More than a chunk has. */
const BLOCK_ROWS = CHUNK_ROWS * 2
const BLOCK_BYTES = 2 ** 40

export function insertSettings(token: string): Record<string, string | number> {
  return {
    insert_deduplication_token: token,
    insert_deduplicate: 1,
    deduplicate_blocks_in_dependent_materialized_views: 1,
    async_insert: 0,
    // One block: its token stands for all of it.
    max_insert_block_size: BLOCK_ROWS,
    max_block_size: BLOCK_ROWS,
    min_insert_block_size_rows: BLOCK_ROWS,
    min_insert_block_size_bytes: BLOCK_BYTES,
    max_insert_threads: 1,
    max_threads: 1,
    input_format_parallel_parsing: 0,
    // Of the rows in a block with the same key and version the last one stays.
    optimize_on_insert: 1,
    date_time_input_format: 'best_effort',
    input_format_null_as_default: 0,
    input_format_tsv_empty_as_default: 0,
    input_format_allow_errors_num: 0,
    input_format_allow_errors_ratio: 0,
  }
}
