/**
 * SQL as text with separate values. `sql` is a template tag: an interpolated value becomes a parameter, an interpolated
 * Statement is spliced in. Every distinct text gets a name, so PostgreSQL parses and plans it once per connection.
 *
 * A text is composed once. The strings array of a template is the same object each time its line is executed, so the
 * shape made of it, and of the shapes spliced into it, is cached by identity.
 */
export interface Statement {
  readonly text: string
  readonly values: unknown[]
  readonly name: string
  /** How long to wait for its answer, if not the default. */
  readonly answerMs?: number
}

interface Shape {
  readonly parts: readonly string[]
  readonly text: string
  readonly name: string
}

const names = new Map<string, string>()
/** Static texts number in the hundreds. Beyond this, texts must be generated at run time and are sent unnamed. */
const NAMED_AT_MOST = 2000

function nameOf(text: string): string {
  let name = names.get(text)
  if (name === undefined) {
    name = names.size < NAMED_AT_MOST ? `s${names.size}` : ''
    if (name !== '') names.set(text, name)
  }
  return name
}

class SqlStatement implements Statement {
  readonly shape: Shape
  readonly values: unknown[]
  constructor(shape: Shape, values: unknown[]) {
    this.shape = shape
    this.values = values
  }
  get text(): string {
    return this.shape.text
  }
  get name(): string {
    return this.shape.name
  }
}

function makeShape(parts: readonly string[]): Shape {
  const text = parts.reduce((joined, part, index) => `${joined}$${index}${part}`)
  let name: string | undefined
  return {
    parts,
    text,
    // Only texts that are sent get a name; most shapes are parts of others.
    get name() {
      name ??= nameOf(text)
      return name
    },
  }
}

const plain = new WeakMap<readonly string[], Shape>()
const composed = new WeakMap<readonly string[], { inner: (Shape | undefined)[]; shape: Shape }[]>()
/** A template with more distinct parts than this is not cached. */
const COMPOSED_AT_MOST = 32

export function sql(strings: TemplateStringsArray, ...inputs: unknown[]): Statement {
  if (inputs.some((input) => input instanceof SqlStatement)) return compose(strings, inputs)
  let shape = plain.get(strings)
  if (shape === undefined) {
    shape = makeShape(strings)
    plain.set(strings, shape)
  }
  return new SqlStatement(shape, inputs)
}

function compose(strings: TemplateStringsArray, inputs: unknown[]): Statement {
  const inner = inputs.map((input) => (input instanceof SqlStatement ? input.shape : undefined))
  const values = inputs.flatMap((input) => (input instanceof SqlStatement ? input.values : [input]))
  const known = composed.get(strings) ?? []
  const found = known.find((entry) => entry.inner.every((shape, index) => shape === inner[index]))
  if (found) return new SqlStatement(found.shape, values)
  const shape = makeShape(splice(strings, inner))
  if (known.length < COMPOSED_AT_MOST) composed.set(strings, [...known, { inner, shape }])
  return new SqlStatement(shape, values)
}

function splice(strings: readonly string[], inner: (Shape | undefined)[]): string[] {
  const parts: string[] = [strings[0]!]
  inner.forEach((shape, index) => {
    const after = strings[index + 1]!
    if (shape === undefined) parts.push(after)
    else {
      parts[parts.length - 1] += shape.parts[0]!
      parts.push(...shape.parts.slice(1))
      parts[parts.length - 1] += after
    }
  })
  return parts
}

const raws = new Map<string, Shape>()

/** Text that is part of the program, never of a request. */
export function raw(text: string): Statement {
  const shape = raws.get(text) ?? makeShape([text])
  if (raws.size < NAMED_AT_MOST) raws.set(text, shape)
  return new SqlStatement(shape, [])
}

/** Several commands in one text, sent unprepared. */
export const script = (text: string, answerMs?: number): Statement => ({
  text,
  values: [],
  name: '',
  ...(answerMs !== undefined && { answerMs }),
})

export function join(statements: readonly Statement[], separator: string): Statement {
  return statements.reduce((joined, next) => sql`${joined}${raw(separator)}${next}`)
}
