/**
 * Hides known texts inside other texts, in linear time (Rabin–Karp). Both come from tenants: a single pattern of all
 * secrets would be too large to compile, and slow if they share a prefix.
 *
 * Long secrets are split into pieces and hidden piece by piece, so no comparison is longer than a piece; adjacent masks
 * are merged into one.
 */
import { randomInt } from 'node:crypto'
import { MASK } from './secrets.ts'

export type Masking = (text: string) => string

/** Shorter secrets are too common as parts of other words: masking them would mask everything. */
export const SHORTEST = 4
const PIECE = 64
/** A bound for memory. The first ones are kept, so put the likeliest secrets first. */
const MAX_PIECES = 20_000

export function maskTexts(texts: Iterable<string>): Masking {
  const pieces = collectPieces(texts)
  if (pieces.size === 0) return (text) => text
  const pairs = new Uint8Array(1 << 16)
  const lengthsByHead = new Map<string, Set<number>>()
  const sums = new Set<number>()
  for (const piece of pieces) {
    pairs[pairAt(piece, 0)] = 1
    const head = piece.slice(0, SHORTEST)
    lengthsByHead.set(head, (lengthsByHead.get(head) ?? new Set()).add(piece.length))
    sums.add(sumUp(piece)[piece.length]!)
  }
  const sorted = new Map([...lengthsByHead].map(([head, lengths]) => [head, [...lengths].sort((a, b) => b - a)]))

  return (text) => {
    let running: Int32Array | undefined
    const isPiece = (at: number, length: number): boolean => {
      running ??= sumUp(text)
      const sum = (running[at + length]! - Math.imul(running[at]!, POWERS[length]!)) | 0
      return sums.has(sum) && pieces.has(text.slice(at, at + length))
    }
    const matchAt = (at: number): number => {
      if (pairs[pairAt(text, at)] === 0) return 0
      const lengths = sorted.get(text.slice(at, at + SHORTEST)) ?? []
      return lengths.find((length) => at + length <= text.length && isPiece(at, length)) ?? 0
    }
    let shown = ''
    let from = 0
    let masked = -1
    for (let at = 0; at <= text.length - SHORTEST; ) {
      const length = matchAt(at)
      if (length === 0) {
        at++
        continue
      }
      shown += masked === at ? '' : text.slice(from, at) + MASK
      at += length
      from = masked = at
    }
    return from === 0 ? text : shown + text.slice(from)
  }
}

/** Random per process, so that a tenant cannot construct text whose hashes collide with those of a piece. */
const BASE = randomInt(2 ** 31) | 1
const POWERS = new Int32Array(PIECE + 1).fill(1)
for (let length = 1; length <= PIECE; length++) POWERS[length] = Math.imul(POWERS[length - 1]!, BASE)

/** Prefix hashes, from which the hash of any substring follows. */
function sumUp(text: string): Int32Array {
  const sums = new Int32Array(text.length + 1)
  for (let at = 0; at < text.length; at++) sums[at + 1] = (Math.imul(sums[at]!, BASE) + text.charCodeAt(at)) | 0
  return sums
}

const pairAt = (text: string, at: number): number => (text.charCodeAt(at) * 31 + text.charCodeAt(at + 1)) & 0xffff

function collectPieces(texts: Iterable<string>): Set<string> {
  const pieces = new Set<string>()
  for (const text of texts) {
    if (text.length < SHORTEST) continue
    // Pieces of equal size, so that no leftover piece is too short.
    const count = Math.ceil(text.length / PIECE)
    for (let index = 0; index < count; index++) {
      if (pieces.size >= MAX_PIECES) return pieces
      const [start, end] = [index, index + 1].map((step) => Math.floor((text.length * step) / count))
      pieces.add(text.slice(start, end))
    }
  }
  return pieces
}
