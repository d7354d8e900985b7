/** In place of an executor: it exits, and a process that it started writes to the same output afterwards. */
import { spawn } from 'node:child_process'

const afterExit = `while kill -0 ${process.pid}; do :; done 2>/dev/null; echo 'heap out of memory' >&2`
spawn('sh', ['-c', afterExit], { stdio: ['ignore', 'ignore', 'inherit'] })
process.exit(3)
