/**
 * Where attacks are run: a victim that must not be reached, a server that counts as public, names that lie, and for
 * each attack a folder with a secret that must stay unchanged.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { createBroker } from '../../src/cell/broker.ts'
import { createRedactor } from '../../src/cell/redact.ts'
import type { Zygote } from '../../src/cell/zygote.ts'
import { createFetch } from '../../src/connectors/authentication/fetch.ts'
import type { ConnectorError } from '../../src/connectors/contract.ts'
import { createEgress, type Egress } from '../../src/egress/policy.ts'

export interface Attack {
  id: string
  category: string
  mode?: 'run'
  code: string
  expect: string
  /** The minimum Python 3 version for its syntax. */
  since?: number
  assert: 'no_leak' | 'limit' | 'protocol' | 'not_success' | 'host_ok' | 'capped' | 'masked' | 'dies'
}

export interface Aftermath {
  /** Null if the call succeeded. */
  failure: ConnectorError | null
  logs: string[]
  leak: string | null
  canaryIntact: boolean
}

export const SECRET = 's3cr3t-token-of-the-tenant'
/** An address of this machine that the policy permits. Nothing listens there. */
const PERMITTED = '127.0.0.2'
const PYTHON = fileURLToPath(new URL('../../../python', import.meta.url))
const ZIP_BOMB = gzipSync(Buffer.alloc(20 << 20))

export class Ground {
  readonly #victim: Server
  readonly #public: Server
  readonly egress: Egress
  victimReached = 0
  /** How often the rebinding name was resolved. */
  rebindLookups = 0

  private constructor(victim: Server, open: Server, layersOff: boolean) {
    this.#victim = victim
    this.#public = open
    victim.on('connection', () => this.victimReached++)
    this.egress = createEgress({
      // Without the layers, everything on this machine is open.
      allow: layersOff
        ? ['127.0.0.0/8', '0.0.0.0/8', '::/127', 'localhost']
        : [`public.test:${portOf(open)}`, `other.test:${portOf(open)}`, PERMITTED],
      self: [],
      lookup: async (host) => {
        // The second answer of a rebinding name is the victim: a policy that trusts its first check would fail.
        const address = host === 'rebind.test' && this.rebindLookups++ === 0 ? PERMITTED : '127.0.0.1'
        return [{ address, family: 4 }]
      },
    })
  }

  static async prepare(layersOff: boolean): Promise<Ground> {
    const victim = await listen(createServer((_, response) => response.end('VICTIM')))
    const open = await listen(
      createServer((request, response) => servePublic(request.url ?? '/', request.headers, response)),
    )
    return new Ground(victim, open, layersOff)
  }

  async attack(zygote: Zygote, attack: Attack): Promise<Aftermath> {
    const canary = await mkdtemp(path.join(tmpdir(), 'canary-'))
    await writeFile(path.join(canary, 'secret.txt'), 'CANARY')
    const code = attack.code
      .replaceAll('__VICTIM__', String(portOf(this.#victim)))
      .replaceAll('__PUBLIC__', String(portOf(this.#public)))
      .replaceAll('__CANARY__', canary)
      .replaceAll('__CODE__', PYTHON)
    try {
      const { failure, logs } = await this.#run(zygote, attack.mode === 'run' ? code : confess(code))
      const leak = logs.find((line) => line.startsWith('@LEAK ')) ?? null
      return { failure, logs, leak, canaryIntact: await isIntact(canary) }
    } finally {
      await rm(canary, { recursive: true, force: true })
    }
  }

  async #run(zygote: Zygote, code: string): Promise<{ failure: ConnectorError | null; logs: string[] }> {
    const authentication = { type: 'api_key', params: { token: SECRET } }
    const broker = createBroker({ fetch: createFetch({ egress: this.egress, authentication }), limits: zygote.limits })
    const logs: string[] = []
    try {
      await zygote.call(
        { op: 'run_file', code, authentication: { type: 'api_key' } },
        {
          log: (_, line) => void logs.push(line),
          http: (requests, signal) => broker.answer(requests, signal),
          secrets: () => authentication.params,
          redact: createRedactor(() => [SECRET]),
        },
      )
      return { failure: null, logs }
    } catch (error) {
      return { failure: error as ConnectorError, logs }
    }
  }

  async close(): Promise<void> {
    await this.egress.close()
    for (const server of [this.#victim, this.#public]) {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  }
}

/** A snippet escapes by setting LEAK; whatever else happens to it, LEAK is checked at the end. */
function confess(code: string): string {
  const indented = code.replaceAll(/^(?=.)/gm, '    ')
  return `try:\n${indented}\nfinally:\n    if 'LEAK' in globals(): print('@LEAK ' + repr(LEAK)[:200])\n`
}

async function isIntact(canary: string): Promise<boolean> {
  const names = await readdir(canary)
  return names.length === 1 && (await readFile(path.join(canary, 'secret.txt'), 'utf8')) === 'CANARY'
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port
}

async function listen(server: Server): Promise<Server> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}

function servePublic(target: string, headers: NodeJS.Dict<string | string[]>, response: ServerResponse): void {
  const url = new URL(target, 'http://public.test')
  switch (url.pathname) {
    case '/redir':
      response.writeHead(302, { location: target.slice('/redir?to='.length) }).end()
      break
    case '/loop':
      response.writeHead(302, { location: '/loop' }).end()
      break
    case '/echo':
      response.end(JSON.stringify(headers))
      break
    case '/bomb':
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(ZIP_BOMB)
      break
    case '/endless': {
      const chunk = Buffer.alloc(64 * 1024, 'x')
      const pour = () => {
        while (!response.destroyed && response.write(chunk));
      }
      response.on('drain', pour)
      pour()
      break
    }
    case '/drip':
      response.write('x')
      break
    case '/slow':
      break
    default:
      response.end('ok')
  }
}
