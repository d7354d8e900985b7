import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { startZygote, type Zygote } from '../../src/cell/zygote.ts'
import { type Aftermath, type Attack, Ground, SECRET } from './attack-ground.ts'

const all: Attack[] = JSON.parse(readFileSync(new URL('attacks.json', import.meta.url), 'utf8'))

// With more modules at hand than authors have, an attack meets the kernel and not a missing import.
const MODULES =
  'asyncio ast builtins ctypes gc http.client io marshal os pickle pty py_compile signal smtplib socket sqlite3 struct ' +
  'urllib.request zipimport'
const options = {
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
const NORMAL = "import json\nprint(json.dumps({'a': [1, 2]}), 'planted' in globals() or 'planted' in dir(__builtins__))"

/** Two at a time: the machine is small, and attacks on the neighbour are part of the suite. */
async function attackAll(ground: Ground, zygote: Zygote, chosen: readonly Attack[]): Promise<Map<string, Aftermath>> {
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

/** An attack that died of something else than the wall proves nothing about the wall. */
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

let ground: Ground
let zygote: Zygote
let attacks: Attack[] = []
before(async () => {
  ground = await Ground.prepare(false)
  zygote = startZygote(options)
  const { logs } = await ground.attack(zygote, {
    ...all[0]!,
    mode: 'run',
    code: 'import sys; print(sys.version_info[1])',
  })
  attacks = all.filter(({ since = 0 }) => since <= Number(logs[0]))
})
after(async () => {
  await zygote.close()
  await ground.close()
})

test('the self-test finds the sandbox in place', async () => {
  assert.deepEqual(await zygote.selfTest(), {
    ok: true,
    reason: 'socket, open, executable mapping and execve are refused by the kernel',
  })
})

test('every attack is held, the victim is not reached and the next tenant notices nothing', async () => {
  const results = await attackAll(ground, zygote, attacks)
  const found: Record<Verdict, string[]> = { held: [], escaped: [], skipped: [] }
  for (const attack of attacks) found[judge(attack, results.get(attack.id)!)].push(attack.id)
  console.log(`attacks: ${found.held.length} held, ${found.escaped.length} escaped, ${found.skipped.length} skipped`)
  assert.deepEqual(found.escaped, [])
  assert.deepEqual(found.skipped, [])
  assert.equal(ground.victimReached, 0)
  assert.equal(ground.rebindLookups, 2, 'the rebinding name gave its second answer')

  const { logs } = results.get('log-frame-forgery')!
  assert.ok(logs.length > 1 && logs.every((line) => !/[\u0000-\u001f]/.test(line)))
  const after = await ground.attack(zygote, { ...attacks[0]!, mode: 'run', code: NORMAL })
  assert.equal(after.failure, null)
  assert.deepEqual(after.logs, ['{"a": [1, 2]} False'])
})

test('an attack by a forbidden system call is reported as a sandbox violation', async () => {
  const attack = attacks.find(({ id }) => id === 'raw-execve')!
  const { failure } = await ground.attack(zygote, attack)
  assert.equal(failure?.kind, 'sandbox')
  assert.match(failure.message, /^sandbox violation/)
})

/** Without the wall these would harm the machine the tests run on. */
const TOO_REAL = new Set([
  'sig-kill-all',
  'raw-mq-shm',
  'write-dev-shm',
  'raw-tgkill-init',
  'sig-pidfd',
  'sig-sched-fifo',
])

test('with the layers off the same attacks escape', async () => {
  const open = await Ground.prepare(true)
  const bare = startZygote({ ...options, sandbox: 'none' })
  try {
    const chosen = attacks.filter((attack) => attack.assert === 'no_leak' && !TOO_REAL.has(attack.id))
    const results = await attackAll(open, bare, chosen)
    const escaped = chosen.filter(({ id }) => results.get(id)!.leak !== null || !results.get(id)!.canaryIntact)
    console.log(`layers off: ${escaped.length} of ${chosen.length} escaped`)
    assert.ok(escaped.length >= 50, `only ${escaped.length} of ${chosen.length} escaped: the attacks prove nothing`)
  } finally {
    await bare.close()
    await open.close()
  }
})
