/**
 * One zygote process and its three channels: settings and `kill` go to its standard input, the end of each child comes
 * from its standard output, and every call is a connection of its own (python/cell/zygote.py says what is on them).
 * When this process dies the zygote sees the end of its input and a parent-death signal, and takes all cells with it.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import net, { type OnReadOpts, type Socket } from 'node:net'
import { constants, tmpdir } from 'node:os'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'

const ZYGOTE = fileURLToPath(new URL('../../../python/cell/zygote.py', import.meta.url))
const START_TIMEOUT_MS = 30_000
const ERROR_BYTES = 4096

export interface ZygoteSettings {
  memory_mb: number
  cpu_seconds: number
  sandbox: 'kernel' | 'none'
  /** Modules beyond the import list; the attack suite gives its snippets more to work with. */
  preload: readonly string[]
}

/** How a cell ended. `lost`: its zygote died with it. */
export interface CellExit {
  code: number
  signal: string | null
  cpu_ms: number
  lost: boolean
}

const SIGNAL_NAMES = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]))

export class ZygoteProcess {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>
  readonly #address: string
  readonly #folder: string | null
  readonly #exits = new Map<string, PromiseWithResolvers<CellExit>>()
  #errors = ''
  #lastId = 0
  alive = true
  forks = 0

  private constructor(
    child: ChildProcessByStdio<Writable, Readable, Readable>,
    address: string,
    folder: string | null,
  ) {
    this.#child = child
    this.#address = address
    this.#folder = folder
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-ERROR_BYTES)
    })
    child.stdin.on('error', () => {})
    child.once('exit', () => this.#forget())
  }

  /** An idle zygote keeps nobody from ending; one that starts or has cells does. */
  #hold(busy: boolean): void {
    const { stdin, stdout, stderr } = this.#child
    for (const part of [this.#child, stdin, stdout, stderr] as Partial<Socket>[]) busy ? part.ref?.() : part.unref?.()
  }

  static async start(python: string, settings: ZygoteSettings): Promise<ZygoteProcess> {
    const linux = process.platform === 'linux'
    const folder = linux ? null : await mkdtemp(path.join(tmpdir(), 'sluice-cell-'))
    const address = folder === null ? `@sluice-cell-${randomUUID()}` : path.join(folder, 'zygote')
    const child = spawn(python, ['-I', '-S', '-B', ZYGOTE], { env: {}, cwd: '/', stdio: ['pipe', 'pipe', 'pipe'] })
    const zygote = new ZygoteProcess(child, address, folder)
    child.stdin.write(`${JSON.stringify({ ...settings, address, host_pid: process.pid })}\n`)
    try {
      await zygote.#waitUntilReady()
    } catch (error) {
      await zygote.close()
      throw error
    }
    return zygote
  }

  async #waitUntilReady(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const timer = setTimeout(() => reject(new Error('the Python zygote did not start in time')), START_TIMEOUT_MS)
    this.#child.once('error', reject)
    this.#child.once('close', () => reject(new Error(`the Python zygote ended at start: ${this.#errors.trim()}`)))
    let rest = ''
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (line.startsWith('ready ')) resolve()
        else this.#noteExit(line)
      }
    })
    await promise.finally(() => clearTimeout(timer))
    this.#hold(false)
  }

  #noteExit(line: string): void {
    const [, id = '', code, signal, cpuMs] = line.split(' ')
    const exit = {
      code: Number(code),
      signal: SIGNAL_NAMES.get(Number(signal) as never) ?? null,
      cpu_ms: Number(cpuMs),
    }
    this.#exits.get(id)?.resolve({ ...exit, lost: false })
    this.#exits.delete(id)
    if (this.#exits.size === 0) this.#hold(false)
  }

  #forget(): void {
    this.alive = false
    for (const exit of this.#exits.values()) exit.resolve({ code: 0, signal: null, cpu_ms: 0, lost: true })
    this.#exits.clear()
    if (this.#folder !== null) rm(this.#folder, { recursive: true, force: true }).catch(() => {})
  }

  /** Opens the channel of a new cell. Whatever is written to it is read by the sealed child. */
  open(onread: OnReadOpts): { id: string; socket: Socket; exit: Promise<CellExit> } {
    const number = ++this.#lastId
    this.forks++
    const exit = Promise.withResolvers<CellExit>()
    this.#exits.set(String(number), exit)
    this.#hold(true)
    if (!this.alive) this.#forget()
    const address = this.#address.startsWith('@') ? `\0${this.#address.slice(1)}` : this.#address
    const socket = net.connect({ path: address, onread })
    const head = Buffer.alloc(8)
    head.writeBigUInt64LE(BigInt(number))
    socket.write(head)
    return { id: String(number), socket, exit: exit.promise }
  }

  kill(id: string): void {
    if (this.#exits.has(id)) this.#child.stdin.write(`kill ${id}\n`)
  }

  /** Resolves when no cell is left. */
  async drained(): Promise<void> {
    while (this.#exits.size > 0) await Promise.all([...this.#exits.values()].map((exit) => exit.promise))
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null || this.#child.pid === undefined) return
    const ended = once(this.#child, 'exit')
    this.#hold(true)
    this.#child.stdin.end()
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), 2000)
    await ended
    clearTimeout(timer)
  }
}
