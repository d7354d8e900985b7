import { type AnswerHead, headerOf } from './request.ts'

/** How long a server asks to wait, in milliseconds: seconds or a date. Null where it does not say, or not so that it can be read. */
export function retryAfterMs(answer: Pick<AnswerHead, 'headers'>, now = Date.now()): number | null {
  const text = headerOf(answer, 'retry-after')?.trim() ?? ''
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
  return Number.isNaN(ms) ? null : Math.max(ms, 0)
}
