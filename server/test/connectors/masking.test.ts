import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { maskTexts } from '../../src/connectors/settings/masking.ts'
import { createRedact } from '../../src/connectors/settings/redact.ts'

describe('masking', () => {
  it('hides every secret wherever it occurs, and nothing else', () => {
    const mask = maskTexts(['geheim', 'geheimnis', 'xyz', 'aaaa'])
    assert.equal(mask('ein geheimnis, geheim!'), 'ein ********, ********!')
    assert.equal(mask('geheimgeheim aaaaaaaa'), '******** ********')
    assert.equal(mask('aaaaa xyz'), '********a xyz')
    for (const text of ['', 'abc', 'gehei', 'nothing to hide']) assert.equal(mask(text), text)
    assert.equal(maskTexts([])('geheim'), 'geheim')
  })

  it('leaves no four characters of a long secret, whatever surrounds it', () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 4, maxLength: 1000 }),
        fc.stringMatching(/^[^!]*$/),
        fc.stringMatching(/^[^!]*$/),
        (secret, before, after) => maskTexts([secret])(`${before}!${secret}!${after}`).includes('!********!'),
      ),
      { numRuns: 300 },
    )
  })

  it('takes linear time with many secrets, and with adversarial ones', () => {
    const line = 'a'.repeat(60_000)
    const sets = [
      Array.from({ length: 36_000 }, (_, index) => index.toString(36).padStart(4, 'a')),
      Array.from({ length: 100 }, (_, index) => `${'a'.repeat(2000)}b${index}`),
      [`${'a'.repeat(200_000)}b`],
      Array.from({ length: 60 }, (_, index) => `${'a'.repeat(index + 4)}b`),
    ]
    for (const secrets of sets) {
      const started = process.cpuUsage()
      const redact = createRedact(secrets)
      for (let lines = 0; lines < 5; lines++) redact(line)
      const { user } = process.cpuUsage(started)
      assert.ok(user < 3_000_000, `${user} µs for ${secrets.length} secrets`)
    }
  })
})
