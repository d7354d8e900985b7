import { ConnectorError, type Page, type ReadContext, type Reading, type Source } from '../contract.ts'
import { isJson, readJsonLines, readLineTable } from '../formats/read-json-lines.ts'
import { describeFile } from './describe.ts'
import { openFile } from './open-file.ts'
import { canonicalFile, type FilePlace, type FileSettings, findPlaces, settings } from './settings.ts'
import { describeTyped, readTypedOutput } from './typed-output.ts'

const STREAM = 'rows'
/** People wait for a check. */
const MOST_CHECKED = 20

export const fileSource: Source<typeof settings> = {
  kind: 'source',
  name: 'file',
  display_name: 'File',
  description:
    'Reads a CSV, JSON lines, JSON or Parquet file, plain or compressed with gzip or zstd, from the web or from the outputs of earlier runs.',
  streams: [STREAM],
  auth_types: ['api_key', 'bearer', 'basic', 'oauth2_client_credentials', 'oauth2_refresh_token'],
  settings,
  canonical: canonicalFile,
  capabilities: { incremental: false, resumable: false, columns: false, encodings: ['ndjson'] },
  example_config: {
    name: 'file',
    stream: STREAM,
    authentication: { type: 'none', params: {} },
    config: { url: 'https://example.com/people.csv', format: 'csv' },
  },
  notes: `Give one of \`url\`, \`urls\`, \`run_id\` and \`run_ids\`. A web server cannot list its files, so there are no \`*\` and \`?\` in an
address; what it can have is lists and ranges after the host: \`https://example.com/{2024,2025}/sales-{01..12}.csv\` are 24 files, read in
that order, the last group varying fastest. Together at most 1,000 addresses; a file that is missing fails the run. For many files in
a bucket use [s3](s3.md). The one stream is \`${STREAM}\`: every row or line of the file is a record, without a
\`_record_id\`. A file compressed with gzip or zstd is recognised by its first bytes, whatever its name. A file on a private address must be allowed by the operator (\`EGRESS_ALLOW\`).

- **jsonl** passes through byte for byte after every line was checked to be a JSON object: no digit of a number is lost.
- **json** is one array of objects, \`[{"id": 1}, {"id": 2}]\`, and each of them a record. It is read as a stream, so it may be of
  any size; blanks between values are removed, everything else stays as it is. Objects around the array, like
  \`{"data": […]}\`, are not unwrapped: write a [custom source](../custom-sources.md) for those.
- **csv** is read with delimiter and quotes detected. A column is a number if every cell is written as JSON
  writes numbers, so \`007\` stays text and \`0.10\` keeps its zero; it is a boolean if every cell is true or false; everything
  else is text. An empty cell is null, a quoted empty one is an empty string.
- **parquet** keeps integers and decimals exact, dates and times as ISO 8601, bytes as \`\\x\` and
  hex digits, nested values as JSON. NaN and the infinities are the strings \`NaN\`, \`Infinity\` and \`-Infinity\`, because JSON has no
  such numbers.

An output that is kept as typed rows (tab-separated text, what one table gave to another) is read with the columns and types it
was written with; one that an older version kept is not, because its columns were not stored.

CSV and Parquet, and JSON lines on their way to Parquet, are first copied to temporary files on the worker. A read cannot resume in the middle: after a lost worker
it starts over, and nothing of it is visible in the destination before the end.`,

  async check(context) {
    const { stream } = context
    if (stream !== null && stream !== STREAM)
      throw new ConnectorError(
        'config',
        `A file has no stream '${stream.slice(0, 100)}'; its one stream is '${STREAM}'`,
      )
    for (const place of findPlaces(context.config).slice(0, MOST_CHECKED)) {
      if ('run_id' in place && describeTyped(context, STREAM, place.run_id)) continue
      const file = await openFile(context, place)
      await file.close()
    }
  },

  async listStreams() {
    return [STREAM]
  },

  describe: (context, wanted) => Promise.all(wanted.map((stream) => describeFile(context, stream))),

  outputs: ({ run_id, run_ids = [] }) => (run_id === undefined ? run_ids : [run_id, ...run_ids]),

  read: openReading,
}

async function openReading(context: ReadContext<FileSettings>): Promise<Reading> {
  const places = findPlaces(context.config)
  return places.length === 1 ? readFile(context, places[0]!) : { columns: null, pages: readFiles(context, places) }
}

async function readFile(context: ReadContext<FileSettings>, place: FilePlace): Promise<Reading> {
  const rows = 'run_id' in place ? readTypedOutput(context, place.run_id) : null
  if (rows) return rows
  const file = await openFile(context, place)
  const tables = context.tables && isOnlyFile(context)
  if (isJson(file)) return tables ? readLineTable(file) : { columns: null, pages: readJsonLines(file, context) }
  const options = { ...context.config, signal: context.signal }
  if (tables && file.format === 'csv') return (await import('../formats/read-csv-table.ts')).readCsvTable(file, options)
  const { readTable } = await import('../formats/read-table.ts')
  return readTable(file, options)
}

const isOnlyFile = ({ config }: ReadContext<FileSettings>): boolean => findPlaces(config).length === 1

/** They need not have the same columns. */
async function* readFiles(context: ReadContext<FileSettings>, places: readonly FilePlace[]): AsyncGenerator<Page> {
  for (const place of places) yield* (await readFile(context, place)).pages
}
