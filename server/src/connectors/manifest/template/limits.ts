/**
 * What one evaluation of a template may use. Evaluation is synchronous and never nested, so one meter serves all; each
 * render starts it anew.
 */
import { TemplateError } from './values.ts'

const MOST_STEPS = 200_000
const MOST_TEXT = 4 * 1024 * 1024
const MOST_ITEMS = 200_000
const MOST_MS = 2000
/** Steps between two looks at the clock. */
const LOOK_EVERY = 1024

let steps = 0
let produced = 0
let deadline = 0
let nextLook = LOOK_EVERY

export function startMeter(): void {
  steps = 0
  produced = 0
  deadline = 0
  nextLook = LOOK_EVERY
}

/** Counts work; `amount` is roughly the number of values touched. */
export function step(amount = 1): void {
  steps += amount
  if (steps > MOST_STEPS) throw new TemplateError(`a template takes more than ${MOST_STEPS} steps`)
  if (steps < nextLook) return
  nextLook = steps + LOOK_EVERY
  const now = performance.now()
  if (deadline === 0) deadline = now + MOST_MS
  else if (now > deadline) throw new TemplateError(`a template takes longer than ${MOST_MS} ms`)
}

/** A text that an operation produced or is about to produce. All of them together are limited, too. */
export function produce(length: number): void {
  produced += length
  if (length > MOST_TEXT || produced > 4 * MOST_TEXT) {
    throw new TemplateError(`a template produces more than ${MOST_TEXT} characters`)
  }
}

export function text(value: string): string {
  if (value.length > 256) produce(value.length)
  return value
}

export function countItems(count: number): void {
  if (count > MOST_ITEMS) throw new TemplateError(`a template makes a list of more than ${MOST_ITEMS} items`)
  step(Math.ceil(count / 8))
}
