/**
 * Load from a separate process, so that its work does not count as the server's: connections that each send the next
 * request when the last is answered. Started with fork; receives a task by message and answers with its measurements.
 */
import { fork } from 'node:child_process'
import { Pool } from 'undici'
import { percentile } from './figures.ts'

export interface Task {
  url: string
  target: string
  token: string
  connections: number
  ms: number
  /** Shorter answers are wrong ones. */
  bytes: number
}

export interface Seen {
  requests: number
  requests_s: number
  p50_ms: number
  p99_ms: number
}

export interface LoadGenerator {
  run(task: Task): Promise<Seen>
  stop(): void
}

export function startLoadGenerator(): LoadGenerator {
  const child = fork(import.meta.filename)
  return {
    run: (task) =>
      new Promise((resolve, reject) => {
        child.once('message', (message) => {
          const answer = message as Seen | { problem: string }
          if ('problem' in answer) reject(new Error(answer.problem))
          else resolve(answer)
        })
        child.send(task)
      }),
    stop: () => child.kill(),
  }
}

async function generate({ url, target, token, connections, ms, bytes }: Task): Promise<Seen> {
  const pool = new Pool(url, { connections, pipelining: 1 })
  const headers = { authorization: `Bearer ${token}` }
  const times: number[] = []
  const began = performance.now()
  const work = async () => {
    for (let now = performance.now(); now < began + ms; now = performance.now()) {
      const { statusCode, body } = await pool.request({ method: 'GET', path: target, headers })
      const { byteLength } = await body.arrayBuffer()
      if (statusCode !== 200 || byteLength < bytes) throw new Error(`${target}: ${statusCode}, ${byteLength} bytes`)
      times.push(performance.now() - now)
    }
  }
  await Promise.all(Array.from({ length: connections }, work))
  const seconds = (performance.now() - began) / 1000
  await pool.close()
  return {
    requests: times.length,
    requests_s: times.length / seconds,
    p50_ms: percentile(times, 50),
    p99_ms: percentile(times, 99),
  }
}

if (process.argv[1] === import.meta.filename)
  process.on('message', (task) => {
    generate(task as Task).then(
      (seen) => process.send!(seen),
      (error: Error) => process.send!({ problem: error.message }),
    )
  })
