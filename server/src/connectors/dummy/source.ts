import type { Json } from '../../json/json.ts'
import { type Static, Type } from '../../schema.ts'
import {
  ConnectorError,
  identity,
  overridable,
  type Page,
  type ReadContext,
  type ReadRange,
  type Source,
} from '../contract.ts'
import { columnsOf, LONGEST_RECORD, type Stream, streams, writeRecord } from './records.ts'

const settings = Type.Object(
  {
    records: overridable(
      Type.Integer({
        minimum: 0,
        maximum: 1_000_000_000,
        default: 10,
        description: 'How many records the stream has.',
      }),
    ),
    seed: identity(
      overridable(
        Type.Integer({
          minimum: 0,
          maximum: 4_294_967_295,
          default: 1,
          description: 'The same seed gives the same records.',
        }),
      ),
    ),
    delay_ms: overridable(
      Type.Integer({
        minimum: 0,
        maximum: 3_600_000,
        default: 0,
        description: 'A pause before each record, in milliseconds.',
      }),
    ),
    fail_after: overridable(
      Type.Optional(Type.Integer({ minimum: 0, description: 'Fails after this many records of the stream.' })),
    ),
    repeat_ids: identity(
      overridable(
        Type.Optional(Type.Integer({ minimum: 1, description: 'Ids start again at 1 after this many records.' })),
      ),
    ),
  },
  { additionalProperties: false },
)

/** Large enough that a page costs one write, small enough that a few of them do not matter. */
const PAGE_BYTES = 128 * 1024

export const dummySource: Source<typeof settings> = {
  kind: 'source',
  name: 'dummy',
  display_name: 'Dummy',
  description: 'Generated creatures and plants, any number of them: for trying out pipelines and for tests.',
  streams,
  auth_types: ['api_key'],
  settings,
  capabilities: {
    incremental: true,
    own_cursor: true,
    resumable: true,
    columns: false,
    encodings: ['ndjson'],
    ranges: true,
  },
  example_config: {
    name: 'dummy',
    stream: 'creatures',
    authentication: { type: 'api_key', params: { token: 'any-text-will-do' } },
    config: { records: 100, seed: 7 },
  },
  notes: `Each record is derived only from the seed and its position in the stream, so a read that resumes from a cursor returns
exactly the missing records. Authentication is accepted and ignored.

\`records\` is the size of the stream: an incremental run reads what follows the last one, and nothing until the number
is raised. A back-fill names positions, the first of which is 0. \`updated_at\` grows by one second from record to record and can serve as \`cursor_field\`.

To see what a failure looks like set \`fail_after\`; to have time to cancel a run set \`delay_ms\`; to try out \`upsert\` set
\`repeat_ids\`.`,

  async check({ stream }) {
    if (stream !== null && !(streams as readonly string[]).includes(stream))
      throw new ConnectorError(
        'config',
        `The dummy source has no stream '${stream.slice(0, 100)}'; it has ${streams.join(', ')}`,
      )
  },

  async listStreams() {
    return [...streams]
  },

  async describe({ config }, wanted) {
    return wanted.map((stream) => ({
      stream,
      columns: columnsOf(stream as Stream),
      primary_key: ['id'],
      cursor_fields: ['updated_at'],
      estimated_rows: config.records,
    }))
  },

  checkState: (state) => void readPosition(state),
  checkRange: requirePositions,

  async read(context) {
    return { columns: columnsOf(context.stream as Stream), pages: makePages(context) }
  },
}

type DummyContext = ReadContext<Static<typeof settings>>

async function* makePages(context: DummyContext): AsyncGenerator<Page> {
  const { records, seed, delay_ms, fail_after, repeat_ids } = context.config
  const recipe = { stream: context.stream as Stream, seed, repeatIds: repeat_ids ?? 0 }
  const end = Math.min(records, fail_after ?? records, Number(context.range?.to ?? records))
  let position = startOf(context)
  while (position < end) {
    context.signal.throwIfAborted()
    if (delay_ms > 0) await pause(delay_ms, context.signal)
    const limit = delay_ms > 0 ? position + 1 : end
    const first = position
    const bytes = Buffer.allocUnsafeSlow(delay_ms > 0 ? LONGEST_RECORD : PAGE_BYTES)
    let length = 0
    while (position < limit && length <= bytes.length - LONGEST_RECORD) {
      length = writeRecord(bytes, length, recipe, position)
      position++
    }
    yield { bytes: bytes.subarray(0, length), records: position - first, cursor: { position } }
  }
  if (fail_after !== undefined && fail_after <= end) {
    throw new ConnectorError(
      'source',
      `The dummy source failed after ${fail_after} records because fail_after is set; remove it to let the run succeed.`,
    )
  }
}

function startOf(context: DummyContext): number {
  const cursor = context.resume ?? context.state
  if (cursor === null) return Number(context.range?.from ?? 0)
  return readPosition(cursor)
}

function requirePositions({ from, to }: ReadRange): void {
  for (const position of [from, to])
    if (!/^\d{1,15}$/.test(String(position)))
      throw new ConnectorError('config', 'A range of the dummy source has positions, such as 100 and 200.')
}

function readPosition(state: Json): number {
  const position = (state as { position?: unknown } | null)?.position
  if (typeof position === 'number' && Number.isSafeInteger(position) && position >= 0) return position
  throw new ConnectorError('config', 'This is not a state of the dummy source; it has the form {"position": 100}.')
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal.addEventListener('abort', stop, { once: true })
  })
}
