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
- **csv** has one column for each field found at the top of any record, in the order they first appear, and a header.
  Nested values are JSON text, numbers are written as they came. Null and a missing field are an empty cell, an empty string is \`""\`.
- **parquet** keeps whole numbers, decimals and booleans as such where a whole column fits, and everything else as text.
  Nested values are JSON text.`,

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
