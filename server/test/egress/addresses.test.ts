import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { classifyAddress, inRange, parseAddress, parseRange } from '../../src/egress/addresses.ts'

function kindOf(text: string): string | null {
  const address = parseAddress(text)
  assert.ok(address, `${text} is an address`)
  return classifyAddress(address)
}

const closed: Record<string, string[]> = {
  loopback: ['127.0.0.1', '127.255.255.254', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1', '64:ff9b::7f00:1'],
  'this network': ['0.0.0.0', '0.1.2.3', '::', '::ffff:0.0.0.0'],
  'private network': [
    '10.0.0.5',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    'fc00::1',
    'fd12:3456::1',
    'fec0::1',
    '::ffff:10.0.0.5',
    '64:ff9b::10.0.0.5',
  ],
  'carrier-grade NAT': ['100.64.0.1', '100.127.255.255'],
  'link-local': ['169.254.0.1', 'fe80::1', 'febf::1'],
  'cloud metadata': [
    '169.254.169.254',
    '::ffff:169.254.169.254',
    '64:ff9b::a9fe:a9fe',
    'fd00:ec2::254',
    'fd00:0ec2:0:0:0:0:0:0254',
    '168.63.129.16',
    '100.100.100.200',
  ],
  documentation: ['192.0.2.1', '198.51.100.7', '203.0.113.9', '2001:db8::1', '3fff::1'],
  benchmark: ['198.18.0.1', '198.19.255.255', '2001:2::1'],
  multicast: ['224.0.0.1', '239.255.255.255', 'ff02::1'],
  broadcast: ['255.255.255.255'],
  tunnel: ['2002:7f00:1::', '2001:0:4136:e378::', '192.88.99.1', '64:ff9b:1::1'],
  reserved: ['240.0.0.1', '192.0.0.8', '2001:20::1', '::7f00:1', '::ffff:0:127.0.0.1', '100::1', '4000::1', '5f00::1'],
}

for (const [kind, addresses] of Object.entries(closed)) {
  test(`${kind} addresses are recognised in every notation`, () => {
    for (const address of addresses) assert.equal(kindOf(address), kind, address)
  })
}

test('public addresses are recognised, including at the edges of the closed ranges', () => {
  const open = [
    ...['1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255'],
    ...['128.0.0.0', '169.253.255.255', '169.255.0.0', '172.15.255.255', '172.32.0.0', '192.167.255.255'],
    ...['192.169.0.0', '198.17.255.255', '198.20.0.0', '223.255.255.255', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8'],
    ...['2001:4860:4860::8888', '2606:4700::1111', '2003::1', '2a00:1450::1'],
  ]
  for (const address of open) assert.equal(kindOf(address), null, address)
})

test('what is not a plain address is not parsed as one', () => {
  for (const text of [
    '',
    'localhost',
    '127.1',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '1.2.3.4.5',
    'fe80::1%eth0',
    '::1%lo',
    '[::1]',
  ])
    assert.equal(parseAddress(text), null, text)
})

test('every notation of an IPv6 address parses the same', () => {
  fc.assert(
    fc.property(fc.ipV6(), (text) => {
      const canonical = new URL(`http://[${text}]/`).hostname.slice(1, -1)
      assert.deepEqual(parseAddress(text), parseAddress(canonical))
    }),
  )
})

test('a range contains exactly the addresses that share its prefix', () => {
  fc.assert(
    fc.property(fc.nat(0xffffffff), fc.integer({ min: 0, max: 32 }), fc.nat(0xffffffff), (base, prefix, other) => {
      const range = { family: 4 as const, value: BigInt(base), prefix }
      const size = 2 ** (32 - prefix)
      const first = Math.floor(base / size) * size
      const expected = other >= first && other < first + size
      assert.equal(inRange({ family: 4, value: BigInt(other) }, range), expected)
    }),
  )
})

test('a range in mapped notation is the IPv4 range', () => {
  assert.deepEqual(parseRange('::ffff:10.0.0.0/104'), parseRange('10.0.0.0/8'))
  for (const text of ['10.0.0.0/33', '10.0.0.0/', '10.0.0.0/8/8', '10.0.0.0/-1', 'fd00::/129', '::ffff:10.0.0.0/8'])
    assert.equal(parseRange(text), null, text)
})
