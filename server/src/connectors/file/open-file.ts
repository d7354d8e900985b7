/** Opens the file that a source names, from the web through egress or from the blobs of a run. */
import { Readable } from 'node:stream'
import { readParts } from '../../blobs/part-reader.ts'
import { DamagedPart } from '../../blobs/parts.ts'
import { ConnectorError, type SourceContext } from '../contract.ts'
import { type OpenFile, openStream } from '../formats/open-file.ts'
import { explainRequest, explainStatus } from '../http-failures.ts'
import type { FilePlace, FileSettings } from './settings.ts'

export async function openFile(context: SourceContext<FileSettings>, place: FilePlace): Promise<OpenFile> {
  const { body, name } = 'url' in place ? await openUrl(context, place.url) : await openOutput(context, place.run_id)
  const what = 'url' in place ? 'The file' : `The output of the run ${place.run_id}`
  return openStream(body, { name, format: context.config.format, explain, check: (head) => refuseDatabase(head, what) })
}

/** Read as CSV, a database would be a table of nonsense. */
function refuseDatabase(head: Buffer, what: string): void {
  const found = databaseOf(head)
  if (found === null) return
  const [system, source] = found
  throw new ConnectorError('config', `${what} is a ${system} database; read it with the source ${source}.`)
}

function databaseOf(head: Buffer): [system: string, source: string] | null {
  if (head.toString('latin1', 0, 16) === 'SQLite format 3\0') return ['SQLite', 'sqlite']
  // After it a small number of eight bytes: a CSV may have the letters there.
  const isDuckdb = head.toString('latin1', 8, 12) === 'DUCK' && head.toString('latin1', 14, 20) === '\0'.repeat(6)
  return isDuckdb ? ['DuckDB', 'duckdb'] : null
}

function explain(error: unknown): unknown {
  if (error instanceof DamagedPart)
    return new ConnectorError('source', `The output cannot be read: ${error.message}.`, { cause: error })
  return explainRequest(error, 'source', 'The file cannot be fetched')
}

async function openUrl(context: SourceContext<FileSettings>, url: string): Promise<{ body: Readable; name: string }> {
  const { fetch, signal } = context
  try {
    const answer = await fetch.stream(url)
    if (answer.status >= 200 && answer.status < 300) return { body: answer.body, name: new URL(answer.url).pathname }
    answer.body.destroy()
    throw explainStatus(answer.status, new URL(url).host, 'source', 'there is no such file; check the url')
  } catch (error) {
    signal.throwIfAborted()
    throw explain(error)
  }
}

async function openOutput(
  { outputs }: SourceContext<FileSettings>,
  runId: string,
): Promise<{ body: Readable; name: string }> {
  const parts = outputs.parts(runId)
  if (!parts) {
    throw new ConnectorError(
      'config',
      `The run ${runId} has no readable output; choose a successful run of this organization that kept its output.`,
    )
  }
  return { body: Readable.from(readParts(outputs.blobs, parts)), name: '' }
}
