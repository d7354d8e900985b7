import { readdirSync, readFileSync } from 'node:fs'

/** The ids of the executors that a process has started. */
export const executorsOf = (parent: number): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const isChild = Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[1]) === parent
        return isChild && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('executor.ts')
      } catch {
        return false
      }
    })
