/** What is wrong with the objects of a request: all of it at once, each with a JSON pointer to its place. */
import { type Fields, isObject } from '../connectors/settings/settings.ts'
import { AppError } from '../errors.ts'

export interface Problem {
  /** Into the body of the request, such as /objects/pipelines/0/config/source/stream. */
  pointer: string
  message: string
  /** Inside of code, from 1. */
  line?: number
  /** From 0. */
  column?: number
  /** The caller may not do this. */
  forbidden?: boolean
}

/** More are not told. */
export const MAX_PROBLEMS = 1000

export const pointerTo = (...steps: (string | number)[]): string =>
  steps.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')

/**
 * The faults of an object as our checks write them, a sentence per line that begins with its path: `config.source.stream:
 * is required`. What begins with no field of the object concerns the object as a whole.
 */
export function readFaults(text: string, object: unknown, at: readonly (string | number)[]): Problem[] {
  return text
    .replaceAll('saved_connector_id', 'connection')
    .split('\n', MAX_PROBLEMS)
    .filter((line) => line.trim() !== '')
    .map((line) => readFault(line, object, at))
}

function readFault(line: string, object: unknown, at: readonly (string | number)[]): Problem {
  const colon = line.indexOf(': ')
  const steps = colon > 0 ? walk(object, line.slice(0, colon)) : null
  if (steps === null) return { pointer: pointerTo(...at), message: line }
  return { pointer: pointerTo(...at, ...steps), message: line.slice(colon + 2) }
}

/** A longer path is not looked for. */
const LONGEST_PATH = 500

/** The steps of a path like `config.columns.rename.a.b[0]`. Names may contain dots, so the object decides; null: not a path. */
function walk(root: unknown, path: string): (string | number)[] | null {
  if (path.length > LONGEST_PATH) return null
  const steps: (string | number)[] = []
  let value = root
  let rest = path
  while (rest !== '') {
    const index = /^\[(\d+)\]/.exec(rest)
    if (index && Array.isArray(value)) {
      steps.push(Number(index[1]))
      value = value[Number(index[1])]
      rest = rest.slice(index[0].length).replace(/^\./, '')
      continue
    }
    const known = isObject(value) ? findLongestName(value, rest) : null
    if (known === null) {
      // What is missing is named all the same; a sentence that has a colon is not a path.
      if (steps.length === 0 && !/^[a-z_]+$/.test(rest)) return null
      return /\s/.test(rest) ? null : [...steps, ...rest.split(/[.[\]]+/).filter((part) => part !== '')]
    }
    steps.push(known)
    value = (value as Record<string, unknown>)[known]
    rest = rest.slice(known.length).replace(/^\./, '')
  }
  return steps
}

/** By the places where a name may end: there may be thousands of names, and as many faults. */
function findLongestName(value: Fields, path: string): string | null {
  for (let end = path.length; end >= 0; end--) {
    const isEnd = end === path.length || path[end] === '.' || path[end] === '['
    if (isEnd && Object.hasOwn(value, path.slice(0, end))) return path.slice(0, end)
  }
  return null
}

/** What a change threw, where it is the caller's to correct; anything else is thrown again. */
export function problemsOf(error: unknown, object: unknown, at: readonly (string | number)[]): Problem[] {
  if (!(error instanceof AppError) || error.status >= 500 || error.code === 'too_many_requests') throw error
  const problems = readFaults(error.message, object, at)
  return error.code === 'forbidden' ? problems.map((problem) => ({ ...problem, forbidden: true })) : problems
}

/** One sentence for all of them, with the first few. */
export function refuseAll(problems: readonly Problem[]): AppError {
  const shown = problems.slice(0, 10).map(({ pointer, message }) => `${pointer}: ${message}`)
  const rest = problems.length > shown.length ? [`and ${problems.length - shown.length} more`] : []
  const code = problems.every(({ forbidden }) => forbidden) ? 'forbidden' : 'invalid_input'
  return new AppError(code, ['Nothing was changed:', ...shown, ...rest].join('\n'), {}, { problems: publish(problems) })
}

/** As they are sent. */
export const publish = (problems: readonly Problem[]) =>
  problems.slice(0, MAX_PROBLEMS).map(({ pointer, message, line = null, column = null }) => ({
    pointer,
    message,
    line,
    column,
  }))
