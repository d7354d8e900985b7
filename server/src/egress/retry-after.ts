import { type AnswerHead, headerOf } from './request.ts'

/** How long a server asks to wait, in milliseconds, from seconds or a date. Null if the header is absent or invalid. */
export function retryAfterMs(answer: Pick<AnswerHead, 'headers'>, now = Date.now()): number | null {
  const text = headerOf(answer, 'retry-after')?.trim() ?? ''
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
  return Number.isNaN(ms) ? null : Math.max(ms, 0)
}
