/**
 * Encryption at rest: AES-256-GCM with a random nonce. A sealed value names the key that wrote it and is bound to its
 * organization, table, column and row, so a value copied to another row does not open.
 *
 *   version (1) · key id (4) · nonce (12) · tag (16) · ciphertext
 */
import { createCipheriv, createDecipheriv, createHash, createHmac, createSecretKey, randomBytes } from 'node:crypto'

const VERSION = 1
const KEY_ID = 4
const NONCE = 12
const TAG = 16
const HEADER = 1 + KEY_ID + NONCE + TAG

export interface Place {
  organization_id: string
  /** `table.column` */
  column: string
  row_id: string
}

export interface SecretBox {
  seal(place: Place, value: unknown): Buffer
  /** Throws SecretLost if the key is missing or the value does not belong here. */
  open<T>(place: Place, box: Buffer): T
  /** Whether the value was encrypted with the current key. */
  isCurrent(box: Buffer): boolean
  currentKeyId: Buffer
  /** A keyed hash (HMAC-SHA256): whoever does not have the key cannot test guesses about the text. */
  hash(purpose: string, text: string): Buffer
}

export class SecretLost extends Error {}

export function createSecretBox(keys: readonly string[]): SecretBox {
  const ring = keys.map((text) => {
    const bytes = readKey(text)
    const id = createHash('sha256').update('sluice key id').update(bytes).digest().subarray(0, KEY_ID)
    // Prepared once: from bytes, each use of a key takes five times as long.
    return { key: createSecretKey(bytes), id }
  })
  const writer = ring[0]!
  // A key of its own, so that the one of the cipher is used for nothing else.
  const hashKey = createSecretKey(createHmac('sha256', writer.key).update('sluice keyed hash').digest())

  return {
    currentKeyId: writer.id,
    hash: (purpose, text) => createHmac('sha256', hashKey).update(`${purpose}\n${text}`).digest(),
    isCurrent: (box) => box.subarray(1, 1 + KEY_ID).equals(writer.id),
    seal(place, value) {
      const nonce = randomBytes(NONCE)
      const cipher = createCipheriv('aes-256-gcm', writer.key, nonce)
      cipher.setAAD(bindingOf(place))
      const body = Buffer.concat([cipher.update(JSON.stringify(value), 'utf8'), cipher.final()])
      return Buffer.concat([Buffer.of(VERSION), writer.id, nonce, cipher.getAuthTag(), body])
    },
    open<T>(place: Place, box: Buffer) {
      const id = box.subarray(1, 1 + KEY_ID)
      const entry = ring.find((candidate) => candidate.id.equals(id))
      if (box[0] !== VERSION || box.length < HEADER || !entry)
        throw new SecretLost(
          `It was encrypted with the key ${id.toString('hex')}, which ENCRYPTION_KEY does not have; add that key to the list, or save the configuration again`,
        )
      const decipher = createDecipheriv('aes-256-gcm', entry.key, box.subarray(1 + KEY_ID, 1 + KEY_ID + NONCE))
      decipher.setAAD(bindingOf(place))
      decipher.setAuthTag(box.subarray(1 + KEY_ID + NONCE, HEADER))
      try {
        return JSON.parse(
          Buffer.concat([decipher.update(box.subarray(HEADER)), decipher.final()]).toString('utf8'),
        ) as T
      } catch {
        throw new SecretLost(
          'Its key does not decrypt it: the stored value was changed or belongs to another row; save the configuration again',
        )
      }
    },
  }
}

const bindingOf = (place: Place): Buffer => Buffer.from(`${place.organization_id}\n${place.column}\n${place.row_id}`)

function readKey(text: string): Buffer {
  if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex')
  const decoded = Buffer.from(text, 'base64')
  if (decoded.length === 32 && /^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return decoded
  return createHash('sha256').update(text).digest()
}
