/**
 * SQL as text with values beside it. `sql` is a template tag: an interpolated value becomes a parameter, an interpolated
 * Statement is spliced in. Every distinct text gets a name, so PostgreSQL parses and plans it once per connection.
 */
export interface Statement {
  readonly text: string
  readonly values: unknown[]
  readonly name: string
}

const names = new Map<string, string>()
/** Static texts number in the hundreds. Past this, texts are made at run time and are sent unnamed. */
const NAMED_AT_MOST = 2000

function nameOf(text: string): string {
  let name = names.get(text)
  if (name === undefined) {
    name = names.size < NAMED_AT_MOST ? `s${names.size}` : ''
    if (name !== '') names.set(text, name)
  }
  return name
}

const isStatement = (value: unknown): value is Statement =>
  typeof value === 'object' && value !== null && (value as { isStatement?: boolean }).isStatement === true

class SqlStatement implements Statement {
  readonly isStatement = true
  readonly parts: readonly string[]
  readonly values: unknown[]
  #text: string | undefined
  constructor(parts: readonly string[], values: unknown[]) {
    this.parts = parts
    this.values = values
  }
  get text(): string {
    this.#text ??= this.parts.reduce((text, part, index) => `${text}$${index}${part}`)
    return this.#text
  }
  get name(): string {
    return nameOf(this.text)
  }
}

export function sql(strings: TemplateStringsArray, ...inputs: unknown[]): Statement {
  if (!inputs.some(isStatement)) return new SqlStatement(strings, inputs)
  const parts: string[] = [strings[0]!]
  const values: unknown[] = []
  inputs.forEach((input, index) => {
    const after = strings[index + 1]!
    if (isStatement(input)) {
      const inner = (input as SqlStatement).parts
      parts[parts.length - 1] += inner[0]!
      parts.push(...inner.slice(1))
      values.push(...input.values)
      parts[parts.length - 1] += after
    } else {
      values.push(input)
      parts.push(after)
    }
  })
  return new SqlStatement(parts, values)
}

/** Text that is part of the program, never of a request. */
export const raw = (text: string): Statement => new SqlStatement([text], [])

/** Several commands in one text, sent as they are. */
export const script = (text: string): Statement => ({ text, values: [], name: '' })

export function join(statements: readonly Statement[], separator: string): Statement {
  return statements.reduce((joined, next) => sql`${joined}${raw(separator)}${next}`)
}
