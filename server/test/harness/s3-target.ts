/** What a reader of a manifest sees: the rows of the objects that it lists, whatever their format. */
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { request } from 'undici'
import { openStream } from '../../src/connectors/formats/open-file.ts'
import { readJsonLines } from '../../src/connectors/formats/read-json-lines.ts'
import { readTable } from '../../src/connectors/formats/read-table.ts'
import { placeOf } from '../../src/connectors/s3/settings.ts'
import { createS3Client, type S3Client, S3Error } from '../../src/s3/client.ts'

type Config = Record<string, unknown>

export interface Manifest {
  objects: { key: string; run_id: string; records: number; bytes: number }[]
}

export function openTestClient(config: Config): S3Client {
  const place = placeOf({ region: 'us-east-1', addressing: 'auto', ...config } as Parameters<typeof placeOf>[0])
  return createS3Client(place, {
    patienceMs: 0,
    async transport({ method, url, headers, body }) {
      const answer = await request(url, { method, headers, ...(body === undefined ? {} : { body }) })
      return { status: answer.statusCode, headers: answer.headers, body: answer.body }
    },
  })
}

export async function readManifest(config: Config, stream = 'rows'): Promise<Manifest | null> {
  const key = `${config.prefix ?? ''}${config.folder ?? stream}/_manifest.json`
  try {
    const answer = await openTestClient(config).send({ method: 'GET', key })
    return JSON.parse(await text(answer.body)) as Manifest
  } catch (error) {
    if (error instanceof S3Error && error.status === 404) return null
    throw error
  }
}

export async function readTarget(config: Config, stream = 'rows'): Promise<string[]> {
  const manifest = await readManifest(config, stream)
  const rows: string[] = []
  for (const { key, records } of manifest?.objects ?? []) {
    const found = await readObjectRows(config, key)
    if (found.length !== records) throw new Error(`${key} has ${found.length} rows, the manifest says ${records}`)
    for (const row of found) rows.push(row)
  }
  return rows
}

async function readObjectRows(config: Config, key: string): Promise<string[]> {
  const answer = await openTestClient(config).send({ method: 'GET', key })
  const file = await openStream(Readable.from(answer.body), { name: key, explain: (error) => error })
  const signal = AbortSignal.timeout(60_000)
  const pages = file.format === 'jsonl' ? readJsonLines(file) : (await readTable(file, { header: true, signal })).pages
  let lines = ''
  for await (const page of pages) lines += page.bytes.toString()
  return lines.split('\n').slice(0, -1)
}
