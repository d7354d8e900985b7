/**
 * A refused form as problems beside its fields. The server writes one line per fault, `config.config.port: must be an
 * integer`; lines about other places remain for the notice below the form.
 */
import { ApiError } from './client.ts'

export interface Problems {
  byPath: Record<string, string>
  rest: string[]
}

/** `prefix` is the path of the form in what was sent, with its final dot. */
export function problemsOf(error: unknown, prefix: string): Problems {
  const problems: Problems = { byPath: {}, rest: [] }
  if (!(error instanceof ApiError) || error.status !== 400) return problems
  for (const line of error.message.split('\n')) {
    const [, path, message] = /^([\w.[\]-]+): (.*)$/s.exec(line) ?? []
    if (path?.startsWith(prefix)) problems.byPath[path.slice(prefix.length)] = message!
    else problems.rest.push(line)
  }
  return problems
}
