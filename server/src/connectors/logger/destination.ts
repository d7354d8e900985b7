import { Type } from '../../schema.ts'
import { type Destination, overridable } from '../contract.ts'

const settings = Type.Object(
  {
    samples: overridable(
      Type.Integer({
        minimum: 0,
        maximum: 100,
        default: 5,
        description: 'How many records the log shows, from the first on.',
      }),
    ),
  },
  { additionalProperties: false },
)

const LONGEST_SAMPLE = 1000

export const loggerDestination: Destination<typeof settings> = {
  kind: 'destination',
  name: 'logger',
  display_name: 'Logger',
  description: "Shows the first records in the run's log and counts the rest: useful for exploring a source.",
  settings,
  capabilities: { write: ['append'], encodings: ['ndjson'], commits: 'output' },
  example_config: { name: 'logger', config: { samples: 5 } },
  notes: `Nothing leaves the service. Every record is kept in the run's output file as JSON lines, unless the pipeline sets
\`keep_output\` to false. A sample longer than ${LONGEST_SAMPLE} characters is cut in the log, never in the output.`,

  async check() {},

  async fence() {
    return null
  },

  async open(context) {
    let left = context.config.samples
    let records = 0
    return {
      async write(page) {
        records += page.records
        let start = 0
        while (left > 0 && start < page.bytes.length) {
          const newline = page.bytes.indexOf(10, start)
          const end = newline === -1 ? page.bytes.length : newline
          context.log.info(`Record: ${shorten(page.bytes, start, end)}`)
          start = end + 1
          left--
        }
      },
      async commit() {},
      async publish() {
        if (records === 0) context.log.info('There were no records to show.')
      },
      async abort() {},
    }
  },
}

function shorten(bytes: Buffer, start: number, end: number): string {
  // A UTF-8 character has at most four bytes, so this slice is always long enough, and a huge record is never decoded
  // whole.
  const text = bytes.toString('utf8', start, Math.min(end, start + LONGEST_SAMPLE * 4))
  if (text.length <= LONGEST_SAMPLE && end - start <= LONGEST_SAMPLE * 4) return text
  return `${text.slice(0, LONGEST_SAMPLE)}… (${end - start} bytes)`
}
