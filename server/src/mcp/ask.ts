/**
 * How tools reach the API: over HTTP from `sluice mcp`, in the same process from `POST /mcp`, in both cases as the caller.
 * So what a tool may do is what its key may do.
 */
import { OperatorError } from '../errors.ts'

/** The answer of the API, parsed without losing digits. Throws an OperatorError if it refuses. */
export type Ask = <Answer>(method: 'GET' | 'POST', path: string, body?: unknown) => Promise<Answer>

export class Refused extends OperatorError {
  constructor(status: number, detail: string, requestId: string) {
    super(`${detail.replace(/\.$/, '')} (status ${status}, request ${requestId})`)
  }
}

/** A path with its query; what is undefined is left out. */
export function withQuery(path: string, query: Record<string, string | number | boolean | undefined>): string {
  const given = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) given.set(name, String(value))
  return given.size === 0 ? path : `${path}?${given}`
}
