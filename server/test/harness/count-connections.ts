import type { Connections } from '../../src/database/database.ts'

/** Connections that count how many of them are in use at the same time. */
export function countConnections<C extends Connections>(connections: C): { counted: C; most: () => number } {
  let inUse = 0
  let most = 0
  const count = async <T>(use: () => Promise<T>): Promise<T> => {
    inUse++
    most = Math.max(most, inUse)
    try {
      return await use()
    } finally {
      inUse--
    }
  }
  const counted: C = {
    ...connections,
    query: (statement) => count(() => connections.query(statement)),
    first: (statement) => count(() => connections.first(statement)),
    execute: (statement) => count(() => connections.execute(statement)),
    transaction: (work) => count(() => connections.transaction(work)),
  }
  return { counted, most: () => most }
}
