/**
 * Jinja templates as manifests use them: parsed once, evaluated without eval and within limits (limits.ts).
 *
 * A rendered text becomes a value as in Airbyte: what reads as a Python literal is that literal. What uses something
 * undefined gives the default; what Python would refuse with a TypeError gives the text of the template itself.
 */
import { compileStatements, Locals } from './compile.ts'
import { startMeter } from './limits.ts'
import { literalValue } from './literal.ts'
import { freeNames } from './names.ts'
import { parseTemplate } from './parser.ts'
import { TemplateError, UndefinedUse, type Value, WrongType } from './values.ts'

/** Finds the variables of a template by name. */
export type Variables = (name: string) => Value

export interface Template {
  readonly source: string
  /** The variables it uses. */
  readonly names: ReadonlySet<string>
  /** Null where it uses something undefined. */
  render(variables: Variables): string | null
}

const MOST_CACHED = 20_000
const cache = new Map<string, Template>()

/** Throws a TemplateError that says what is not understood. */
export function template(source: string): Template {
  const known = cache.get(source)
  if (known !== undefined) return known
  const compiled = compileTemplate(source)
  if (cache.size >= MOST_CACHED) cache.clear()
  cache.set(source, compiled)
  return compiled
}

export function isTemplate(text: string): boolean {
  return text.includes('{{') || text.includes('{%') || text.includes('{#')
}

function compileTemplate(source: string): Template {
  if (!isTemplate(source)) return { source, names: new Set(), render: () => source }
  const statements = parseTemplate(source)
  const render = compileStatements(statements)
  return {
    source,
    names: freeNames(statements),
    render: (variables) => {
      startMeter()
      const out: string[] = []
      try {
        render({ variable: variables, locals: new Locals(null) }, out)
      } catch (error) {
        if (error instanceof UndefinedUse) return null
        if (error instanceof WrongType) return source
        if (error instanceof RangeError) throw new TemplateError(`a template fails: ${error.message}`)
        throw error
      }
      return out.join('')
    },
  }
}

/** The value of a rendered text; `kinds` are the types that a literal may have to be taken as one. */
export function literal(text: string, kinds?: (value: Value) => boolean): Value {
  const value = literalValue(text)
  if (value === undefined || (kinds !== undefined && !kinds(value))) return text
  return value
}
