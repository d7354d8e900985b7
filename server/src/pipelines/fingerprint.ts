/** The fingerprint of a config, with a hash of a custom source's settings that only this installation can compute. */
import type { SecretBox } from '../database/secret-box.ts'
import { type Fingerprint, fingerprintOf, type Identifiable } from '../engine/fingerprint.ts'

export function makeFingerprint(box: SecretBox, organizationId: string, config: Identifiable): Fingerprint {
  const keyId = box.currentKeyId.toString('hex')
  return fingerprintOf(config, (text) => {
    const hash = box.hash('settings of a source', `${organizationId}\n${text}`)
    return `${keyId}.${hash.toString('base64url').slice(0, 22)}`
  })
}
