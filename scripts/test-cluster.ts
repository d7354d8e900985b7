/**
 * `npm run cluster`: two API processes, three workers and two schedulers, each in a network namespace of its own, with a
 * PostgreSQL, a second one that pipelines read from and load into, and an S3 server. Under a steady load everything is killed,
 * frozen, cut off and restarted in turn; at the end a ledger shows whether each record arrived exactly once.
 *
 * All of it lives in a network, mount and process namespace, so no packet leaves it, and the kernel removes everything
 * with its first process, however this one ends.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const HELP = `npm run cluster -- [--minutes N] [--seed N]

Needs root, ip, iptables and unshare. --minutes: duration of the faults (20). --seed: their order.`

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '20' },
    seed: { type: 'string', default: String(Date.now() % 100_000) },
    help: { type: 'boolean', short: 'h', default: false },
  },
})
if (values.help) {
  console.log(HELP)
  process.exit(0)
}
const inside = process.env.SLUICE_CLUSTER_FOLDER
if (inside === undefined) process.exitCode = await enclose()
else {
  const { proveCluster } = await import('./cluster/prove.ts')
  process.exit(await proveCluster({ folder: inside, minutes: Number(values.minutes), seed: Number(values.seed) }))
}

/** Runs this script again in namespaces of its own. */
async function enclose(): Promise<number> {
  const missing = findMissing()
  if (missing !== null) {
    console.log(`The cluster test needs ${missing}; nothing was tested.`)
    return 2
  }
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-cluster-'))
  const namespaces = ['unshare', '--net', '--mount', '--pid', '--kill-child', '--mount-proc']
  // The shell is the first process there: it reaps what killed processes leave behind.
  const shell = ['sh', '-c', '"$@"; exit $?', 'sh', process.execPath, fileURLToPath(import.meta.url)]
  const child = spawn(
    'setpriv',
    ['--pdeathsig', 'KILL', ...namespaces, ...shell, '--minutes', values.minutes, '--seed', values.seed],
    { stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, SLUICE_CLUSTER_FOLDER: folder } },
  )
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill('SIGKILL'))
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code === 1) console.log(`The logs of all processes are in ${folder}.`)
  else rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
  return code ?? 1
}

function findMissing(): string | null {
  if (process.getuid?.() !== 0) return 'root'
  const works = (command: string, ...args: string[]) => {
    try {
      execFileSync(command, args, { stdio: 'ignore' })
      return true
    } catch {
      return false
    }
  }
  if (!works('setpriv', 'unshare', '--net', '--mount', '--pid', '--fork', 'true'))
    return 'unshare and setpriv (util-linux)'
  if (!works('ip', 'link')) return 'ip (Debian: iproute2)'
  if (!works('iptables', '--version')) return 'iptables'
  return null
}
