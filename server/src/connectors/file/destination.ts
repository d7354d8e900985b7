import { Type } from '../../schema.ts'
import { type Destination, overridable } from '../contract.ts'
import { chooseOutputColumns, type OutputColumn } from '../formats/output-columns.ts'
import type { ColumnFacts } from '../types/column-facts.ts'

const settings = Type.Object(
  {
    format: overridable(
      Type.Union([Type.Literal('jsonl'), Type.Literal('csv'), Type.Literal('parquet')], {
        default: 'jsonl',
        description: 'The format of the file.',
      }),
    ),
    compression: overridable(
      Type.Union([Type.Literal('none'), Type.Literal('gzip')], {
        default: 'none',
        description: 'gzip compresses jsonl and csv files to .gz; in parquet it replaces snappy.',
      }),
    ),
  },
  { additionalProperties: false },
)

/**
 * Exactly once: the parts of the stage are named by run, attempt and number, and nothing refers to them until the
 * conditional update that finishes the run makes their list the output. An attempt that lost its run writes parts that
 * no list names. So all this destination does is to declare the format of the output.
 */
export const fileDestination: Destination<typeof settings> = {
  kind: 'destination',
  name: 'file',
  display_name: 'File',
  description: "Writes the run's output file as JSON lines, CSV or Parquet, optionally compressed, for download.",
  settings,
  capabilities: { write: ['append', 'replace'], encodings: ['ndjson'], commits: 'output' },
  example_config: { name: 'file', config: { format: 'jsonl', compression: 'none' } },
  notes: `Every run writes its own file with exactly the records it read: \`append\` and \`replace\` give the same result. A failed
or cancelled run leaves no file.

- **jsonl** holds the records byte for byte as the source delivered them, so no digit of a number is lost.
- **csv** has a header with the columns that the source declares, followed by every other top-level field of any
  record, in order of first appearance. Nested values are JSON text, numbers are written unchanged. Null and missing fields
  are empty cells, an empty string is \`""\`.
- **parquet** has the types that the source declares: decimals, dates, times, UUIDs and bytes keep their
  types, nested values and lists are JSON. A decimal without limits is DECIMAL(38,18). If a value does not fit its type
  (more digits, an infinite date), that column is text in that file, and the log says so. If the source declares no types, they are
  inferred from all records of the run: integers, decimals with all their digits, booleans, dates and times in ISO 8601;
  everything else, including nested values, is text.

A file without records has the columns that the source declares, or those of the pipeline's last file.

Choose \`gzip\` if you want a .gz file. It is not needed to save space: the service stores jsonl and csv compressed either way, with
less CPU, and serves them plain.`,

  output: (config) => ({ format: config.format, compression: config.compression }),

  async check() {},

  async fence() {
    return null
  },

  tables: ({ format }) => format === 'parquet',

  async open({ config, schema, signal }) {
    return {
      // The stage has it already.
      async write(page) {
        page.release?.()
      },
      async convert(table) {
        const { convertTable } = await import('../formats/convert-table.ts')
        const choose = (facts: ColumnFacts[]): OutputColumn[] => chooseOutputColumns(null, facts, schema).columns
        const { columns, pages } = convertTable(table, { choose, compression: config.compression, signal })
        return { columns: () => columns().map(({ name, type }) => ({ name, type })), pages }
      },
      async commit() {},
      async publish() {},
      async abort() {},
    }
  },
}
