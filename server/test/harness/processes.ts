/** Programs that a test starts, and what is left of them. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

/** Processes whose command line or working folder names this path. */
export function findProcesses(folder: string): string[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return []
    try {
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
      return `${command} ${readlinkSync(`/proc/${name}/cwd`)}`.includes(folder) ? [`${name} ${command}`] : []
    } catch {
      return []
    }
  })
}

/** A process that was told to end is gone only when the kernel says so, and tells nobody but its parent. */
export async function waitUntilGone(folder: string, withinMs: number): Promise<string[]> {
  const deadline = Date.now() + withinMs
  let left = findProcesses(folder)
  while (left.length > 0 && Date.now() < deadline) {
    await delay(10)
    left = findProcesses(folder)
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
  /** Resolves with the first match in what it writes to standard output; rejects when it ends before. */
  said(pattern: RegExp): Promise<RegExpExecArray>
}

export function startProgram(command: string, args: string[], options: SpawnOptions = {}): Started {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
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
