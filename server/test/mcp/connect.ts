/** The SDK's own client, connected to our tools over either transport and either revision of the protocol. */
import { after } from 'node:test'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { environment, MAIN } from '../harness/service.ts'

export const WAYS = ['http', 'http with a handshake', 'stdio', 'stdio with a handshake'] as const
export type Way = (typeof WAYS)[number]

export interface Answer {
  /** Of a tool that succeeded. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever came back
  data: any
  truncated: boolean | undefined
  text: string
  /** The sentence of one that failed. */
  failure: string | null
}

export interface Tools {
  client: Client
  call(name: string, input?: Record<string, unknown>): Promise<Answer>
}

/** What a call says that a slow machine did not finish in time; it is made again. */
export const TOO_SLOW = /(within|longer than) \d+ seconds|in time\b/

export async function connectTools(
  way: Way,
  { url, key, readOnly = false }: { url: string; key: string; readOnly?: boolean },
): Promise<Tools> {
  const mode = way.endsWith('handshake') ? 'legacy' : { pin: '2026-07-28' }
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
  const transport = way.startsWith('http')
    ? new StreamableHTTPClientTransport(new URL(`${url}/mcp${readOnly ? '?read_only=true' : ''}`), {
        requestInit: { headers: { 'x-api-key': key } },
      })
    : new StdioClientTransport({
        command: process.execPath,
        args: [MAIN, 'mcp', ...(readOnly ? ['--read-only'] : [])],
        env: environment('/nowhere', { SLUICE_URL: url, SLUICE_API_KEY: key }),
      })
  await client.connect(transport)
  after(() => client.close())
  return {
    client,
    async call(name, input = {}) {
      for (;;) {
        const { content, structuredContent, isError } = await client.callTool(
          { name, arguments: input },
          { timeout: 240_000 },
        )
        const [block] = content as { type: string; text: string }[]
        const { data, truncated } = (structuredContent ?? {}) as { data?: unknown; truncated?: boolean }
        const { text } = block!
        if (!TOO_SLOW.test(text)) return { data, truncated, text, failure: isError ? text : null }
      }
    },
  }
}
