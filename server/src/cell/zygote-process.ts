/**
 * One zygote process and its three channels: settings and `kill` go to its standard input, the end of each child comes
 * from its standard output, and every call is a separate connection (python/cell/zygote.py says what is on them).
 * When this process dies, the zygote sees the end of its input and gets a parent-death signal, and all cells die with it.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import net, { type Socket } from 'node:net'
import { constants, tmpdir } from 'node:os'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'

const ZYGOTE = fileURLToPath(new URL('../../../python/cell/zygote.py', import.meta.url))
const START_TIMEOUT_MS = 30_000
const ERROR_BYTES = 4096

interface ZygoteSettings {
  memory_mb: number
  cpu_seconds: number
  sandbox: 'kernel' | 'none'
  preload: readonly string[]
  modules: readonly string[]
}

/** A configured module that is not available, and why. */
export interface ModuleProblem {
  name: string
  problem: string
}

export interface ZygoteStart extends ZygoteSettings {
  /** Cells that are sealed in advance and wait for a job, so that a call only waits for its own work. */
  spares: number
}

/** How a cell ended. `lost`: its zygote died too. */
export interface CellExit {
  code: number
  signal: string | null
  cpu_ms: number
  lost: boolean
}

// Some signal numbers have a second, older name; the usual one comes first.
const SIGNAL_NAMES = new Map(
  Object.entries(constants.signals)
    .reverse()
    .map(([name, number]): [number, string] => [number, name]),
)

/** The channel of one cell. */
export interface CellLine {
  readonly id: string
  readonly socket: Socket
  readonly exit: Promise<CellExit>
  /** Called with bytes that are valid until it returns; false pauses reading until the socket is resumed. */
  receive(bytes: Buffer): boolean
}

/** One buffer serves all channels: its content is decoded, and thereby copied, before the next read. */
const READ_BUFFER = Buffer.allocUnsafeSlow(256 * 1024)

export class ZygoteProcess {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>
  readonly #address: string
  readonly #folder: string | null
  readonly #exits = new Map<string, PromiseWithResolvers<CellExit>>()
  readonly #spares = new Set<CellLine>()
  readonly #wantedSpares: number
  #errors = ''
  #lastId = 0
  #retired = false
  readonly moduleProblems: ModuleProblem[] = []
  alive = true
  forks = 0

  private constructor(
    child: ChildProcessByStdio<Writable, Readable, Readable>,
    address: string,
    folder: string | null,
    spares: number,
  ) {
    this.#child = child
    this.#wantedSpares = spares
    this.#address = address
    this.#folder = folder
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-ERROR_BYTES)
    })
    child.stdin.on('error', () => {})
    child.once('exit', () => this.#forget())
  }

  /** An idle zygote does not keep this process alive; one that is starting or has cells does. */
  #hold(busy: boolean): void {
    const { stdin, stdout, stderr } = this.#child
    for (const part of [this.#child, stdin, stdout, stderr] as Partial<Socket>[]) busy ? part.ref?.() : part.unref?.()
  }

  static async start(python: string, { spares, ...settings }: ZygoteStart): Promise<ZygoteProcess> {
    const linux = process.platform === 'linux'
    const folder = linux ? null : await mkdtemp(path.join(tmpdir(), 'sluice-cell-'))
    const address = folder === null ? `@sluice-cell-${randomUUID()}` : path.join(folder, 'zygote')
    const child = spawn(python, ['-I', '-S', '-B', ZYGOTE], { env: {}, cwd: '/', stdio: ['pipe', 'pipe', 'pipe'] })
    const zygote = new ZygoteProcess(child, address, folder, spares)
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
    this.#child.once('close', () => reject(new Error(`the Python zygote exited at start: ${this.#errors.trim()}`)))
    let rest = ''
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (line.startsWith('ready ')) resolve()
        else if (line.startsWith('module ')) this.#noteProblem(line.slice('module '.length))
        else this.#noteExit(line)
      }
    })
    await promise.finally(() => clearTimeout(timer))
    this.#hold(false)
  }

  #noteProblem(text: string): void {
    try {
      const { name, problem } = JSON.parse(text)
      this.moduleProblems.push({ name: String(name), problem: String(problem) })
    } catch {
      // A module wrote to this channel on import.
    }
  }

  #noteExit(line: string): void {
    const [, id = '', code, signal, cpuMs] = line.split(' ')
    const exit = {
      code: Number(code),
      signal: SIGNAL_NAMES.get(Number(signal)) ?? null,
      cpu_ms: Number(cpuMs),
    }
    this.#exits.get(id)?.resolve({ ...exit, lost: false })
    this.#exits.delete(id)
    if (this.#exits.size <= this.#spares.size) this.#hold(false)
  }

  #forget(): void {
    this.alive = false
    for (const exit of this.#exits.values()) exit.resolve({ code: 0, signal: null, cpu_ms: 0, lost: true })
    this.#exits.clear()
    for (const { socket } of this.#spares) socket.destroy()
    if (this.#folder !== null) rm(this.#folder, { recursive: true, force: true }).catch(() => {})
  }

  /** The channel of a cell for one call. Whatever is written to it is read by the sealed child. */
  open(receive: CellLine['receive']): CellLine {
    const [spare] = this.#spares
    if (spare) this.#spares.delete(spare)
    const line = spare ?? this.#connect()
    line.receive = receive
    line.socket.ref()
    this.#hold(true)
    // After the bytes of the call are sent.
    setImmediate(() => this.#prepare())
    return line
  }

  #prepare(): void {
    while (this.alive && !this.#retired && this.#spares.size < this.#wantedSpares) {
      const line = this.#connect()
      this.#spares.add(line)
      line.socket.unref()
      line.socket.once('close', () => this.#spares.delete(line))
    }
  }

  #connect(): CellLine {
    const number = ++this.#lastId
    this.forks++
    const exit = Promise.withResolvers<CellExit>()
    this.#exits.set(String(number), exit)
    if (!this.alive) this.#forget()
    const address = this.#address.startsWith('@') ? `\0${this.#address.slice(1)}` : this.#address
    const socket = net.connect({
      path: address,
      onread: { buffer: READ_BUFFER, callback: (count) => line.receive(READ_BUFFER.subarray(0, count)) },
    })
    const line: CellLine = { id: String(number), socket, exit: exit.promise, receive: () => false }
    socket.on('error', () => {})
    const head = Buffer.alloc(8)
    head.writeBigUInt64LE(BigInt(number))
    socket.write(head)
    return line
  }

  kill(id: string): void {
    if (this.#exits.has(id)) this.#child.stdin.write(`kill ${id}\n`)
  }

  /** Takes no new calls, and resolves when the last one has ended. */
  async drain(): Promise<void> {
    this.#retired = true
    for (const { socket } of this.#spares) socket.destroy()
    while (this.#exits.size > 0) await Promise.all([...this.#exits.values()].map((exit) => exit.promise))
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null || this.#child.pid === undefined) return
    this.#retired = true
    const ended = once(this.#child, 'exit')
    this.#hold(true)
    this.#child.stdin.end()
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), 2000)
    await ended
    clearTimeout(timer)
  }
}
