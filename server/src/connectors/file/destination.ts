import Type from 'typebox'
import { type Destination, overridable } from '../contract.ts'

const settings = Type.Object(
  {
    format: overridable(
      Type.Union([Type.Literal('jsonl'), Type.Literal('csv'), Type.Literal('parquet')], {
        default: 'jsonl',
        description: 'The form of the file.',
      }),
    ),
    compression: overridable(
      Type.Union([Type.Literal('none'), Type.Literal('gzip')], {
        default: 'none',
        description: 'gzip makes a .gz of jsonl and csv; inside parquet it replaces snappy.',
      }),
    ),
  },
  { additionalProperties: false },
)

/**
 * Exactly once: the parts of the stage are named by run, attempt and number, and nothing refers to them until the one
 * conditional update that finishes the run makes their list the output. An attempt that lost its run writes parts that
 * no list names. So there is nothing to do here but to say which form the output should have.
 */
export const fileDestination: Destination<typeof settings> = {
  kind: 'destination',
  name: 'file',
  display_name: 'File',
  description: "Writes the run's output file as JSON lines, CSV or Parquet, compressed if wanted, for download.",
  settings,
  capabilities: { write: ['append', 'replace'], encodings: ['ndjson'], commits: 'output' },
  example_config: { name: 'file', config: { format: 'jsonl', compression: 'none' } },
  notes: `Every run makes a file of its own, with exactly the records it read: \`append\` and \`replace\` give the same. A failed
or cancelled run leaves none.

- **jsonl** holds the records as the source gave them, byte for byte, so no digit of a number is lost.
- **csv** has a header with the columns that the source declares, and then one for each other field found at the top of any
  record, in the order they first appear. Nested values are JSON text, numbers are written as they came. Null and a missing field
  are an empty cell, an empty string is \`""\`.
- **parquet** has the types that the source declares, whatever the records hold: decimals, dates, times, UUIDs and bytes stay what
  they are, nested values and lists are JSON. A decimal without limits is DECIMAL(38,18). Where one value does not fit its type
  (more digits, an infinite date), that column is text in that file, and the log says so. From a source that declares nothing the
  types follow from all records of the run: whole numbers, decimals with all their digits, booleans, dates and times in ISO 8601;
  everything else, and nested values, is text.

A file of no records has the columns that the source declares, or those of the pipeline's last file.`,

  output: (config) => ({ format: config.format, compression: config.compression }),

  async check() {},

  async fence() {
    return null
  },

  async open() {
    return {
      async write() {},
      async commit() {},
      async publish() {},
      async abort() {},
    }
  },
}
