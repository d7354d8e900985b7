/** What a service holds at a moment: memory, descriptors, processes, disk and database connections. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { findTree } from '../../server/test/harness/processes.ts'

/** What each figure may have grown by at the end: a share of its median or an amount, whichever is more. */
export const TOLERANCE = {
  memory_mb: { share: 0.1, amount: 30 },
  descriptors: { share: 0.05, amount: 20 },
  processes: { share: 0.05, amount: 2 },
  connections: { share: 0, amount: 2 },
  temporary_mb: { share: 0, amount: 5 },
  blobs_mb: { share: 0.1, amount: 5 },
  database_mb: { share: 0.1, amount: 30 },
}

export type Figure = keyof typeof TOLERANCE
export const FIGURES = Object.keys(TOLERANCE) as Figure[]

export interface Places {
  /** The parent of all processes. */
  pid: number
  data: string
  temporary: string
}

export function takeFigures({ pid, data, temporary }: Places, connections: number): Record<Figure, number> {
  const pids = findTree(pid).map((process) => Number(process.split(' ')[0]))
  // Sessions of PostgreSQL are counted as connections; and each keeps the files of the tables that it has used open.
  const own = pids.filter((one) => !read(`/proc/${one}/comm`).startsWith('postgres'))
  const sum = (count: (pid: number) => number) => pids.reduce((total, one) => total + count(one), 0)
  return {
    memory_mb: sum((one) => Number(/^Pss: +(\d+)/m.exec(read(`/proc/${one}/smaps_rollup`))?.[1] ?? 0)) / 1024,
    descriptors: own.reduce((total, one) => total + list(`/proc/${one}/fd`).length, 0),
    processes: own.length,
    connections,
    temporary_mb: sizeOf(temporary) / 1e6,
    blobs_mb: sizeOf(path.join(data, 'blobs')) / 1e6,
    // Without its write-ahead log, which PostgreSQL keeps up to max_wal_size whatever happens.
    database_mb: (sizeOf(path.join(data, 'postgres')) - sizeOf(path.join(data, 'postgres/pg_wal'))) / 1e6,
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function sizeOf(folder: string): number {
  return list(folder).reduce((total, name) => {
    const entry = path.join(folder, name)
    try {
      const found = statSync(entry)
      return total + (found.isDirectory() ? sizeOf(entry) : found.blocks * 512)
    } catch {
      return total
    }
  }, 0)
}
