import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { beforeEach, describe, test } from 'node:test'
import { sign } from '../../src/egress/signature.ts'

const page = readFileSync(new URL('../../../docs/webhooks.md', import.meta.url), 'utf8')
const example = (language: string) => page.split(`\`\`\`${language}\n`)[1]!.split('```')[0]!

interface Case {
  secret: string
  timestamp: string
  signature: string
  body: string
}

let good: Case

beforeEach(() => {
  const timestamp = Math.floor(Date.now() / 1000)
  const secret = 'a sëcret of the webhook'
  const body = '{"event":"test","message":"größer"}'
  good = { secret, body, timestamp: String(timestamp), signature: sign(secret, timestamp, body) }
})

/** Each of these must be refused. */
function forgeries(): Case[] {
  const old = Number(good.timestamp) - 301
  return [
    { ...good, secret: 'another secret of mine' },
    { ...good, body: good.body.replace('test', 'text') },
    { ...good, timestamp: String(Number(good.timestamp) - 1) },
    { ...good, timestamp: String(old), signature: sign(good.secret, old, good.body) },
    { ...good, timestamp: 'now', signature: '' },
    { ...good, signature: good.signature.slice(0, -1) },
    { ...good, signature: 'größer' },
  ]
}

describe('the code in docs/webhooks.md verifies signatures', () => {
  test('in Node', async () => {
    const { isFromSluice } = await import(`data:text/javascript,${encodeURIComponent(example('js'))}`)
    const verify = ({ secret, body, timestamp, signature }: Case, received: Buffer | string = Buffer.from(body)) =>
      isFromSluice(secret, { 'x-sluice-timestamp': timestamp, 'x-sluice-signature': signature }, received)
    assert.equal(verify(good), true)
    assert.equal(verify(good, good.body), true)
    for (const forged of forgeries()) assert.equal(verify(forged), false, JSON.stringify(forged))
    assert.equal(isFromSluice(good.secret, {}, good.body), false)
  })

  test('in Python', () => {
    const program = `${example('python')}
import json, sys
for case in json.load(sys.stdin):
    headers = {"X-Sluice-Timestamp": case["timestamp"], "X-Sluice-Signature": case["signature"]}
    print(is_from_sluice(case["secret"], headers, case["body"].encode()))
print(is_from_sluice("a secret", {}, b""))`
    const cases = [good, ...forgeries()]
    const said = execFileSync('python3', ['-c', program], { input: JSON.stringify(cases), encoding: 'utf8' })
    assert.deepEqual(said.trim().split('\n'), ['True', ...cases.map(() => 'False')])
  })
})
