/**
 * Preloaded into a service by `--import`, to fail in ways that our own code does not. On SIGUSR2 something uncaught is
 * thrown; and the service process fails at start as often as the file CRASHES has characters.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

export const misbehaving = (env: { THROW?: 'exception' | 'rejection'; CRASHES?: string }): Record<string, string> => ({
  NODE_OPTIONS: `--import ${pathToFileURL(import.meta.filename).href}`,
  ...env,
})

process.on('SIGUSR2', () => {
  const error = new TypeError('thrown by a test')
  if (process.env.THROW === 'exception') throw error
  if (process.env.THROW === 'rejection') void Promise.reject(error)
})

const file = process.env.CRASHES
if (file !== undefined && process.argv[1]?.endsWith('service-process.ts')) {
  const left = readFileSync(file, 'utf8')
  writeFileSync(file, left.slice(1))
  if (left.length > 0) throw new Error('this start fails')
}
