/** Programs that a test starts, and what is left of them. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

/** Processes whose command line or working directory contains this path. */
export function findProcesses(folder: string): string[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return []
    try {
      const command = readCommand(name)
      return `${command} ${readlinkSync(`/proc/${name}/cwd`)}`.includes(folder) ? [`${name} ${command}`] : []
    } catch {
      return []
    }
  })
}

/** The child processes of this one, by a part of their command line. */
export function findChildren(parent: number, command: string): number[] {
  const children = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim()
  return children
    .split(' ')
    .filter((pid) => pid !== '' && readCommand(pid).includes(command))
    .map(Number)
}

function readCommand(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
  } catch {
    return ''
  }
}

/** A process and all its descendants, as `pid started`, because a pid alone may be reused. */
export function findTree(pid: number): string[] {
  const all = readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    const stat = readStat(name)
    return stat === null ? [] : [{ pid: Number(name), ...stat }]
  })
  const found = all.filter((entry) => entry.pid === pid)
  for (const { pid: parent } of found) found.push(...all.filter((entry) => entry.parent === parent))
  return found.map((entry) => `${entry.pid} ${entry.started}`)
}

export const isAlive = (process: string): boolean => {
  const [pid, started] = process.split(' ')
  const stat = readStat(pid!)
  return stat !== null && stat.started === started && stat.state !== 'Z'
}

function readStat(pid: string): { state: string; parent: number; started: string } | null {
  try {
    // The name in the second field may contain blanks and brackets; the fields after its last bracket do not.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
    return { state: fields[0]!, parent: Number(fields[1]), started: fields[19]! }
  } catch {
    return null
  }
}

/** A process is gone only when the kernel says so, and only its parent is notified. */
export async function waitUntilGone(find: () => string[], withinMs: number): Promise<string[]> {
  const deadline = Date.now() + withinMs
  let left = find()
  while (left.length > 0 && Date.now() < deadline) {
    await delay(10)
    left = find()
  }
  return left
}

export interface Outcome {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

export interface Started {
  child: ChildProcess
  ended: Promise<Outcome>
  /** Resolves with the first match in its standard output; rejects if it exits before. */
  said(pattern: RegExp): Promise<RegExpExecArray>
}

/** With `input` on its standard input, which null leaves open. */
export function startProgram(
  command: string,
  args: string[],
  options: SpawnOptions = {},
  input?: string | null,
): Started {
  const child = spawn(command, args, { ...options, stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'] })
  if (input !== null) child.stdin?.end(input)
  const outcome: Outcome = { code: null, signal: null, stdout: '', stderr: '' }
  const heard = new Set<() => void>()
  child.stdout!.on('data', (chunk: Buffer) => {
    outcome.stdout += chunk
    for (const check of heard) check()
  })
  child.stderr!.on('data', (chunk: Buffer) => {
    outcome.stderr += chunk
  })
  const ended = new Promise<Outcome>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve(Object.assign(outcome, { code, signal })))
  })
  return {
    child,
    ended,
    said: (pattern) =>
      new Promise((resolve, reject) => {
        const check = () => {
          const match = pattern.exec(outcome.stdout)
          if (match === null) return
          heard.delete(check)
          resolve(match)
        }
        heard.add(check)
        check()
        ended.then(
          () => reject(new Error(`ended before it said ${pattern}:\n${outcome.stdout}${outcome.stderr}`)),
          reject,
        )
      }),
  }
}
