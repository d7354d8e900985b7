/**
 * A separate host for tests that need to kill it, or to run it as another user: runs its argument and prints the
 * result.
 */
import { startZygote } from '../../src/cell/zygote.ts'

const [mode = 'run', code = ''] = process.argv.slice(2)
const zygote = startZygote()
const logs: string[] = []
const log = (_: string, line: string): void => {
  logs.push(line)
  if (mode === 'hang') console.log(line)
}
const failure = await zygote.call({ op: 'run_file', code }, { log }).then(
  () => null,
  (error) => ({ kind: error.kind, message: error.message }),
)
console.log(JSON.stringify({ self_test: await zygote.selfTest(), uid: process.getuid?.(), logs, failure }))
await zygote.close()
