import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startZygote, type Zygote } from '../../src/cell/zygote.ts'
import { type Attack, Ground } from './attack-ground.ts'
import { ATTACKED, attackAll, findAttacks, judgeAll } from './attack-suite.ts'

const NORMAL = "import json\nprint(json.dumps({'a': [1, 2]}), 'planted' in globals() or 'planted' in dir(__builtins__))"

let ground: Ground
let zygote: Zygote
let attacks: Attack[] = []
before(async () => {
  ground = await Ground.prepare(false)
  zygote = startZygote(ATTACKED)
  attacks = await findAttacks(ground, zygote)
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

test('every attack is contained, the victim is not reached and the next tenant is unaffected', async () => {
  const results = await attackAll(ground, zygote, attacks)
  const found = judgeAll(attacks, results)
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

/** Without the sandbox these would harm the machine that the tests run on. */
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
  const bare = startZygote({ ...ATTACKED, sandbox: 'none' })
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
