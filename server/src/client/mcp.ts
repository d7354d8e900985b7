/** `sluice mcp`: the tools over standard input and output, which carry nothing but the protocol. */
import { once } from 'node:events'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { parseExactly } from '../json/parse-exactly.ts'
import type { Ask } from '../mcp/ask.ts'
import { createMcpServer } from '../mcp/server.ts'
import type { Options } from './options.ts'
import { connectService } from './service.ts'

export async function serveTools(options: Options): Promise<number> {
  const service = await connectService(options)
  const ask: Ask = async <Answer>(method: 'GET' | 'POST', path: string, body?: unknown) =>
    parseExactly(await service.text(method, path, body)) as Answer
  const report = (error: unknown): string => {
    console.error(error)
    return 'Internal error of sluice mcp; its standard error has the cause'
  }
  const host = { ask, readOnly: options['--read-only'] !== undefined, report }
  // A file has an end, but is not closed while nobody reads on.
  const ended = Promise.race([once(process.stdin, 'end'), once(process.stdin, 'close')])
  const { close } = serveStdio(() => createMcpServer(host), { onerror: (error) => console.error(error.message) })
  await ended
  await close()
  return 0
}
