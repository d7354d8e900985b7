/**
 * Preloaded into every test process (`--import`). A file that leaves something behind fails: what keeps the process
 * alive after its last hook is reported and the process ended, and a child process that outlives it is reported too.
 * Connections are detected elsewhere: the database of a file is dropped without FORCE, which fails while one is open.
 */
import { readdirSync, readFileSync } from 'node:fs'
import process from 'node:process'
import { after } from 'node:test'
import { keepTestsLocal } from './local-only.ts'

/** Hooks of the file itself run after ours, and stopping a whole service on a busy machine may take a while. */
const PATIENCE_MS = 60_000

keepTestsLocal()
// A program that a test starts inherits the preload; only the test file itself is checked.
if (process.env.NODE_TEST_CONTEXT && process.argv[1]?.endsWith('.test.ts')) watch()

function watch(): void {
  after(() => {
    setTimeout(() => {
      fail(`still open ${PATIENCE_MS / 1000} s after its last test: ${process.getActiveResourcesInfo().join(', ')}`)
      process.exit(1)
    }, PATIENCE_MS).unref()
  })
  process.on('exit', () => {
    const children = findChildren(process.pid)
    if (children.length === 0) return
    fail(`left child processes behind: ${children.join('; ')}`)
    process.exitCode = 1
  })
}

const fail = (sentence: string) => process.stderr.write(`${process.argv[1]}: ${sentence}\n`)

function findChildren(parent: number): string[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      // The name in the second field may contain blanks and brackets; the fields after its last bracket do not.
      const [state, ppid] = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
      if (Number(ppid) !== parent || state === 'Z') return []
      return [`${name} ${readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()}`]
    } catch {
      return []
    }
  })
}
