/**
 * The conformance suite against a real server, where one is installed: the source with JSON lines, the destination with
 * Parquet.
 */
import { describe, it } from 'node:test'
import { s3Destination } from '../../src/connectors/s3/destination/destination.ts'
import { s3Source } from '../../src/connectors/s3/source/source.ts'
import { putObject } from '../../src/s3/upload.ts'
import { type DestinationFixture, nastyRows, plainRows, type SourceFixture } from '../harness/conformance.ts'
import { everyCombination } from '../harness/crash-suite.ts'
import { testDestination } from '../harness/destination-suite.ts'
import { openTestClient, readTarget } from '../harness/s3-target.ts'
import { testSource } from '../harness/source-suite.ts'
import { findVersityGateway, startVersityGateway } from '../harness/versitygw.ts'

const found = findVersityGateway()
const WRONG = 'wrong-secret-11aa'

async function open(command: string) {
  const server = await startVersityGateway(command)
  const config = {
    bucket: server.bucket,
    endpoint: server.endpoint,
    region: server.region,
    access_key_id: server.accessKeyId,
    secret_access_key: server.secretAccessKey,
  }
  const peers = {
    secrets: [server.secretAccessKey, WRONG],
    good: async () => ({ config }),
    badCredentials: async () => ({ config: { ...config, secret_access_key: WRONG }, kind: 'auth' as const }),
    at: async (host: string, port: number) => ({ config: { ...config, endpoint: `http://${host}:${port}` } }),
    close: () => server.close(),
  }
  return { config, peers }
}

async function openSource(command: string): Promise<SourceFixture> {
  const { config, peers } = await open(command)
  const client = openTestClient(config)
  const put = (key: string, rows: string[]) => putObject(client, key, rows.map((row) => `${row}\n`).join(''))
  const own = { ...config, prefix: 'data/' }
  let made = 0
  const counts = new Map<string, number>()
  async function create(rows: string[]): Promise<string> {
    const stream = `stream ${++made} é+&`
    const size = Math.max(1, Math.ceil(rows.length / 4))
    for (let at = 0; at === 0 || at < rows.length; at += size)
      await put(`data/${stream}/part ${String(at).padStart(6, '0')}.jsonl`, rows.slice(at, at + size))
    counts.set(stream, rows.length)
    return stream
  }
  return {
    ...peers,
    stream: async (records) => ({ stream: await create(plainRows(records)), config: own }),
    nasty: async () => ({ stream: await create(nastyRows()), config: own, expected: nastyRows() }),
    async grow(settings, records) {
      const before = counts.get(settings.stream)!
      await put(`data/${settings.stream}/grown ${before}.jsonl`, plainRows(records, before + 1))
      return settings
    },
  }
}

async function openDestination(command: string): Promise<DestinationFixture> {
  const { config, peers } = await open(command)
  let made = 0
  return {
    ...peers,
    target: async () => ({ config: { ...config, prefix: `target-${++made}/`, format: 'parquet' } }),
    read: async ({ config }) => (await readTarget(config)).map(unwrap),
  }
}

/**
 * In a column that is inferred, nested values are JSON text, and so are numbers with more digits than Parquet has: the text of
 * each is the value.
 */
function unwrap(row: string): string {
  const fields = Object.entries(JSON.parse(row, keepDigits) as Record<string, unknown>).map(([name, value]) => {
    const isValue = typeof value === 'string' && (/^[[{].*[\]}]$/s.test(value) || (name === 'part' && value !== ''))
    return `${JSON.stringify(name)}:${isValue ? value : write(value)}`
  })
  return `{${fields.join(',')}}`
}

const write = (value: unknown): string => (value instanceof Digits ? value.text : JSON.stringify(value))

class Digits {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

const keepDigits = ((_key: string, value: unknown, { source }: { source: string }) =>
  typeof value === 'number' ? new Digits(source) : value) as (key: string, value: unknown) => unknown

if ('missing' in found) {
  console.log(`s3 is not tested against a real server: ${found.missing}`)
  it('runs against the server of this project alone', () => undefined)
} else {
  describe('versitygw', () => {
    testSource(s3Source as never, () => openSource(found.command))
    testDestination(s3Destination as never, () => openDestination(found.command), {
      // The others are crashed against the server of this project.
      crashes: (write, kind) => everyCombination || kind === (write === 'append' ? 'can resume' : 'cannot resume'),
    })
  })
}
