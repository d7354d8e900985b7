/**
 * Regular expressions of manifests, in Python's notation. An expression can take exponential time, so a match
 * runs under a deadline, which V8 honours inside of a match, unless it is certain to be short.
 */
import vm from 'node:vm'
import { TemplateError } from './values.ts'

const MOST_PATTERN = 2000
const MOST_SUBJECT = 256 * 1024
/** Of the processor's time: on a busy machine a short match may wait longer than that for its turn. */
const DEADLINE_MS = 250
/** The deadlines of the attempts, on the clock. */
const ATTEMPTS_MS = [DEADLINE_MS, 8 * DEADLINE_MS]
/** Comparisons of characters that a match without a deadline may take, in the worst case. */
const MOST_DIRECT = 1_000_000
const MOST_EMPTY = 8

export interface BoundedRegex {
  /** The first match with its groups, or null. */
  exec(text: string): RegExpExecArray | null
  replace(text: string, replacement: string): string
}

const compiled = new Map<string, BoundedRegex>()

export function boundedRegex(pattern: string): BoundedRegex {
  const known = compiled.get(pattern)
  if (known !== undefined) return known
  const regex = compile(pattern)
  if (compiled.size > 500) compiled.clear()
  compiled.set(pattern, regex)
  return regex
}

function compile(pattern: string): BoundedRegex {
  if (pattern.length > MOST_PATTERN)
    throw new TemplateError(`a regular expression is longer than ${MOST_PATTERN} characters`)
  const { source, flags } = translate(pattern)
  let regex: RegExp
  try {
    regex = new RegExp(source, flags)
  } catch {
    throw new TemplateError(`the regular expression ${JSON.stringify(pattern)} is invalid`)
  }
  const global = new RegExp(regex.source, `${flags}g`)
  const choices = choicesOf(source)
  // A deadline costs far more than a short match, and a template may match once per record.
  const isCheap = (length: number): boolean => (source.length + length) * (length + 1) ** (choices + 1) <= MOST_DIRECT
  const run = <T>(text: string, work: () => T): T => {
    if (text.length > MOST_SUBJECT) throw new TemplateError('a text is too long for a regular expression')
    return isCheap(text.length) ? work() : underDeadline(work)
  }
  return {
    exec: (text) => run(text, () => regex.exec(text)),
    replace: (text, replacement) => {
      const template = javascriptReplacement(replacement)
      return run(text, () => text.replace(global, template))
    },
  }
}

/** Python's notation where it differs: named groups, inline flags, the ends of the text. */
function translate(pattern: string): { source: string; flags: string } {
  let flags = ''
  let source = pattern
  const inline = /^\(\?([aimsux]+)\)/.exec(pattern)
  if (inline !== null) {
    source = pattern.slice(inline[0].length)
    flags = [...new Set(inline[1])].filter((flag) => 'ims'.includes(flag)).join('')
  }
  source = source
    .replaceAll('(?P<', '(?<')
    .replace(/\(\?P=(\w+)\)/g, '\\k<$1>')
    .replace(/\\A/g, '^')
    .replace(/\\Z/g, '$')
  return { source, flags }
}

/** `\1` and `\g<name>` in a replacement. */
function javascriptReplacement(text: string): string {
  return text
    .replaceAll('$', '$$$$')
    .replace(/\\g<(\w+)>/g, (_, name: string) => (/^\d+$/.test(name) ? `$${name}` : `$<${name}>`))
    .replace(/\\(\d)/g, '$$$1')
    .replaceAll('\\n', '\n')
    .replaceAll('\\\\', '\\')
}

/**
 * How many quantifiers a pattern has. Each tries at most one length per character of the text, and so does the start of the
 * match; that bounds the work if there is nothing else to backtrack into: no alternatives, no groups that repeat, no back
 * references, no lookaround.
 */
function choicesOf(source: string): number {
  const unescaped = source.replace(/\\[^1-9k]/gs, 'x').replace(/\[[^\]]*\]/g, 'x')
  // V8 takes exponential time to compile many empty alternatives, and no deadline interrupts it there.
  const empty = unescaped.match(/[(:|](?=\|)|\|(?=\)|$)/g)?.length ?? 0
  if (empty > MOST_EMPTY) throw new TemplateError('a regular expression has too many empty alternatives')
  if (/[\\|]|\)[*+?{]|\(\?/.test(unescaped)) return Number.POSITIVE_INFINITY
  return unescaped.match(/[*+?{]/g)?.length ?? 0
}

interface Sandbox {
  work: (() => unknown) | null
  result: unknown
}
let context: (vm.Context & Sandbox) | null = null
const SCRIPT = new vm.Script('result = work()')

function underDeadline<T>(work: () => T): T {
  const started = usedMs()
  for (const timeout of ATTEMPTS_MS) {
    const done = attempt(work, timeout)
    if (done !== null) return done.result
    if (usedMs() - started >= DEADLINE_MS * 0.8) break
  }
  throw new TemplateError(`a regular expression takes longer than ${DEADLINE_MS} ms`)
}

function usedMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/** Null if it took too long. */
function attempt<T>(work: () => T, timeout: number): { result: T } | null {
  context ??= vm.createContext({ work: null, result: null } satisfies Sandbox) as vm.Context & Sandbox
  context.work = work
  try {
    SCRIPT.runInContext(context, { timeout })
    return { result: context.result as T }
  } catch (error) {
    // The error is one of the other context, and no instance of this one's Error.
    if ((error as { code?: string }).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return null
    throw error
  } finally {
    context.work = null
    context.result = null
  }
}
