/** Runs the attacks against any kind of cells, and judges the results. */
import { readFileSync } from 'node:fs'
import type { Zygote } from '../../src/cell/zygote.ts'
import { type Aftermath, type Attack, type Ground, SECRET } from './attack-ground.ts'

const all: Attack[] = JSON.parse(readFileSync(new URL('attacks.json', import.meta.url), 'utf8'))

// With more modules than authors have, an attack is stopped by the kernel and not by a missing import.
const MODULES =
  'asyncio ast builtins ctypes gc http.client io marshal os pickle pty py_compile signal smtplib socket sqlite3 struct ' +
  'urllib.request zipimport'

export const ATTACKED = {
  preload: MODULES.split(' '),
  limits: {
    memory_mb: 128,
    cpu_seconds: 1,
    wall_seconds: 1,
    max_records: 50_000,
    max_bytes: 20 << 20,
    log_bytes: 256 << 10,
    max_response_bytes: 4 << 20,
  },
}

/** Those that the Python of these cells can parse. */
export async function findAttacks(ground: Ground, zygote: Zygote): Promise<Attack[]> {
  const code = 'import sys; print(sys.version_info[1])'
  const { logs } = await ground.attack(zygote, { ...all[0]!, mode: 'run', code })
  return all.filter(({ since = 0 }) => since <= Number(logs[0]))
}

/** Two at a time: the machine is small, and attacks on the neighbour are part of the suite. */
export async function attackAll(
  ground: Ground,
  zygote: Zygote,
  chosen: readonly Attack[],
): Promise<Map<string, Aftermath>> {
  const results = new Map<string, Aftermath>()
  const queue = [...chosen]
  const work = async () => {
    for (let attack = queue.shift(); attack; attack = queue.shift()) {
      results.set(attack.id, await ground.attack(zygote, attack))
    }
  }
  await Promise.all([work(), work()])
  return results
}

type Verdict = 'held' | 'escaped' | 'skipped'

/** The ids of the attacks by their result. */
export function judgeAll(
  attacks: readonly Attack[],
  results: ReadonlyMap<string, Aftermath>,
): Record<Verdict, string[]> {
  const found: Record<Verdict, string[]> = { held: [], escaped: [], skipped: [] }
  for (const attack of attacks) found[judge(attack, results.get(attack.id)!)].push(attack.id)
  return found
}

/** An attack that failed for another reason proves nothing about the sandbox. */
function isBeside(failure: Aftermath['failure']): boolean {
  return /^(ModuleNotFoundError|ImportError|SyntaxError|IndentationError|NameError)/.test(failure?.message ?? '')
}

function judge(attack: Attack, { failure, leak, canaryIntact }: Aftermath): Verdict {
  if (leak !== null || !canaryIntact) return 'escaped'
  if (attack.assert !== 'limit' && isBeside(failure)) return 'skipped'
  switch (attack.assert) {
    case 'protocol':
      return failure && (failure.kind !== 'source' || failure.message.includes('nested deeper')) ? 'held' : 'escaped'
    case 'limit':
    case 'not_success':
    case 'capped':
    case 'dies':
      return failure === null ? 'escaped' : 'held'
    case 'masked':
      return failure !== null && !`${failure.message}${failure.stack}`.includes(SECRET) ? 'held' : 'escaped'
    default:
      return 'held'
  }
}
