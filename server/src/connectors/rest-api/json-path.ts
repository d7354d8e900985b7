/**
 * The paths of dlt's settings are JSONPath. Accepted are those that lead to a place: `data.items`, `$.data[*].tags`,
 * `meta['next page']`, `results[0]`, `results[-1]` (the last), `$`.
 */
import { fault } from './fault.ts'

export function parsePath(text: string, at: string): string[] {
  const steps: string[] = []
  let rest = text.trim()
  if (rest.startsWith('$')) rest = rest.slice(1)
  while (rest !== '') {
    const { step, length } = readStep(rest, steps.length === 0)
    if (step === null)
      throw fault(
        at,
        `'${text.slice(0, 100)}' is not a path; use names with dots, [0] for a place and [*] for all, like data.items[*]`,
      )
    steps.push(step)
    rest = rest.slice(length)
  }
  return steps
}

/** A path to one value: no `*`. */
export function parseValuePath(text: string, at: string): string[] {
  const path = parsePath(text, at)
  if (path.includes('*')) throw fault(at, 'must lead to one value, so it cannot hold *')
  return path
}

function readStep(text: string, first: boolean): { step: string | null; length: number } {
  const none = { step: null, length: 0 }
  if (text.startsWith('[')) {
    const end = text.indexOf(']')
    const inside = text.slice(1, end)
    const quoted = /^(['"])(.*)\1$/.exec(inside)?.[2]
    if (end < 0 || (quoted === undefined && !/^(\*|-?\d{1,9}|-1:)$/.test(inside))) return none
    return { step: quoted ?? (inside === '-1:' ? '-1' : inside), length: end + 1 }
  }
  const dot = text.startsWith('.') ? 1 : 0
  if (dot === 0 && !first) return none
  const name = /^[^.[\]'"()?@,:]+/.exec(text.slice(dot))?.[0].trim()
  return name ? { step: name, length: dot + /^[^.[\]'"()?@,:]+/.exec(text.slice(dot))![0].length } : none
}
