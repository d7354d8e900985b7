import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAllow } from '../../src/egress/allow-list.ts'
import { createGuard } from '../../src/egress/guard.ts'
import { EgressRefused } from '../../src/egress/policy.ts'

/** Whether a connection to `host`, resolved to `address`, is allowed. */
function permits(
  allow: string[],
  host: string,
  address: string,
  port = 443,
  self: { host: string; port: number }[] = [],
) {
  const guard = createGuard(allow, self)
  try {
    guard.checkTarget(host, port)
    guard.permitted(host, port, [{ address }])
    return true
  } catch (error) {
    assert.ok(error instanceof EgressRefused)
    return false
  }
}

test('EGRESS_ALLOW is a comma separated list of addresses, CIDRs and names with optional ports', () => {
  const text = '10.0.0.0/8, 192.168.1.5:5432,fd00::/8,[fd00::1]:5432, ::1 ,db.internal,db.internal:3306,*.corp.example,'
  assert.deepEqual(parseAllow(text), {
    allow: [
      ...['10.0.0.0/8', '192.168.1.5:5432', 'fd00::/8', '[fd00::1]:5432', '::1'],
      ...['db.internal', 'db.internal:3306', '*.corp.example'],
    ],
  })
  assert.deepEqual(parseAllow(''), { allow: [] })
})

test('entries that cannot be parsed are named', () => {
  for (const entry of [
    '10.0.0.0/40',
    'host:0',
    'host:70000',
    'host:http',
    'http://x',
    'a b',
    '*',
    '*.*',
    '*.10.0.0.1',
    'fe80::1%eth0',
    '/tmp/x',
  ])
    assert.deepEqual(parseAllow(`db.internal, ${entry}`), { problem: `"${entry}" cannot be parsed` })
})

test('a CIDR opens its addresses under any name, a port rule only its port', () => {
  assert.equal(permits(['10.0.0.0/8'], 'anything.example', '10.1.2.3'), true)
  assert.equal(permits(['10.0.0.0/8'], 'anything.example', '192.168.0.1'), false)
  assert.equal(permits(['10.0.0.0/8'], '10.1.2.3', '10.1.2.3'), true)
  assert.equal(permits(['10.0.0.0/8'], 'mapped.example', '::ffff:10.1.2.3'), true)
  assert.equal(permits(['10.0.0.5:5432'], 'db', '10.0.0.5', 5432), true)
  assert.equal(permits(['10.0.0.5:5432'], 'db', '10.0.0.5', 5433), false)
  assert.equal(permits(['[fd00::1]:5432'], 'db', 'fd00::1', 5432), true)
})

test('a name opens whatever it resolves to, and no other name', () => {
  assert.equal(permits(['DB.internal'], 'db.internal', '10.0.0.5'), true)
  assert.equal(permits(['db.internal'], 'evil.example', '10.0.0.5'), false)
  assert.equal(permits(['db.internal'], 'db.internal.evil.example', '10.0.0.5'), false)
  assert.equal(permits(['*.corp.example'], 'a.b.corp.example', '10.0.0.5'), true)
  assert.equal(permits(['*.corp.example'], 'corp.example', '10.0.0.5'), false)
  assert.equal(permits(['*.corp.example'], 'evilcorp.example', '10.0.0.5'), false)
})

test('metadata services are only opened by their own address', () => {
  assert.equal(permits(['169.254.0.0/16', '0.0.0.0/0', 'meta.example'], 'meta.example', '169.254.169.254'), false)
  assert.equal(permits(['fd00::/8'], 'meta.example', 'fd00:ec2::254'), false)
  assert.equal(permits(['169.254.169.254'], 'meta.example', '169.254.169.254'), true)
})

test('the service itself stays closed whatever is allowed', () => {
  const allow = ['127.0.0.0/8', '::1', '0.0.0.0/8', 'localhost', 'sluice.example']
  const own = [{ host: '127.0.0.1', port: 8080 }]
  for (const address of ['127.0.0.1', '::ffff:127.0.0.1', '0.0.0.0'])
    assert.equal(permits(allow, 'x.example', address, 8080, own), false, address)
  assert.equal(permits(allow, 'x.example', '127.0.0.1', 8081, own), true)
  const everywhere = [{ host: '0.0.0.0', port: 8080 }]
  for (const address of ['127.0.0.1', '127.8.8.8', '::1'])
    assert.equal(permits(allow, 'x.example', address, 8080, everywhere), false, address)
  const named = [{ host: 'Sluice.example', port: 443 }]
  assert.equal(permits(allow, 'sluice.example', '8.8.8.8', 443, named), false)
  assert.equal(permits(allow, 'other.example', '8.8.8.8', 443, named), true)
})

test('a listener added later is closed from then on', () => {
  const self: { host: string; port: number }[] = []
  const guard = createGuard(['127.0.0.0/8'], self)
  guard.checkTarget('127.0.0.1', 9090)
  self.push({ host: '127.0.0.1', port: 9090 })
  assert.throws(() => guard.checkTarget('127.0.0.1', 9090), { name: 'EgressRefused', reason: 'self' })
})
