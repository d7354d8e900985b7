/** What processes take, from /proc. */
import { readdirSync, readFileSync } from 'node:fs'

const read = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** A process and all that it started. */
export function tree(root: number): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc'))
    if (/^\d+$/.test(name)) parents.set(Number(name), Number(read(`/proc/${name}/stat`).split(') ')[1]?.split(' ')[1]))
  const found = [root]
  for (let index = 0; index < found.length; index++)
    for (const [pid, parent] of parents) if (parent === found[index]) found.push(pid)
  return found
}

export const commandOf = (pid: number): string => read(`/proc/${pid}/cmdline`)

export function memoryOf(pid: number): { rss: number; pss: number } {
  const text = read(`/proc/${pid}/smaps_rollup`)
  const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) / 1024
  return { rss: field('Rss'), pss: field('Pss') }
}

/** Hundredths of a second, with those of children that have exited: each connection to PostgreSQL is a process. */
export const cpuOf = (pid: number): number => addUp(pid, 11, 15)

/** Without its children. */
export const ownCpuOf = (pid: number): number => addUp(pid, 11, 13)

const addUp = (pid: number, from: number, to: number): number => {
  const fields = read(`/proc/${pid}/stat`).split(') ')[1]?.split(' ') ?? []
  return fields.slice(from, to).reduce((sum, field) => sum + Number(field), 0)
}

export const cpuOfTree = (root: number): number =>
  tree(root)
    .map(cpuOf)
    .reduce((a, b) => a + b, 0)
