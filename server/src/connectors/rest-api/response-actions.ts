/** What a status or a text in the answer means. */
import type { ErrorFilter, ErrorPolicy } from '../http/error-policy.ts'
import type { Scope } from '../http/scope.ts'
import { fault } from './fault.ts'
import type { ResponseActionSettings } from './settings.ts'

/** In dlt an action applies if the status and the content match; the first that does decides. */
export function compileActions(actions: readonly ResponseActionSettings[], at: string): ErrorPolicy[] {
  const filters = actions.map((given, index): ErrorFilter => {
    const { status_code, content, action } = given
    const status = status_code === undefined ? null : Number(status_code)
    if (status !== null && !Number.isInteger(status))
      throw fault(`${at}[${index}].status_code`, 'must be a status, like 404')
    if (status === null && content === undefined) throw fault(`${at}[${index}]`, 'needs status_code, content or both')
    const when = ({ answer }: Scope): boolean =>
      (status === null || answer!.status === status) && (content === undefined || answer!.text.includes(content))
    return { when, action }
  })
  return filters.length === 0 ? [] : [{ filters, backoff: [], maxRetries: 5, maxTimeMs: 600_000 }]
}
