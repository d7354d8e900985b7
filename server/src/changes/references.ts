/**
 * References to secrets in files: `${NAME}` is the text of a variable, `${NAME:json}` its value as JSON. A text that has
 * `${` itself is written with `$${`. Pure, and without imports: the client uses it too.
 */
export const referTo = (name: string, asJson: boolean): string => (asJson ? `\${${name}:json}` : `\${${name}}`)

export const escapeText = (text: string): string => text.replaceAll('${', () => '$${')

const PART = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(:json)?\}/g

export type Reference = { name: string; asJson: boolean }

/** The references in a text. */
export const referencesIn = (text: string): Reference[] =>
  [...text.matchAll(PART)].flatMap(([, name, json]) =>
    name === undefined ? [] : [{ name, asJson: json !== undefined }],
  )

/** The text with its references replaced. One that is nothing but a reference as JSON becomes that value. */
export function resolveText(text: string, lookUp: (name: string) => string): unknown {
  const [only] = referencesIn(text)
  if (only?.asJson && text === referTo(only.name, true)) return JSON.parse(lookUp(only.name))
  return text.replace(PART, (_, name: string | undefined) => (name === undefined ? '${' : lookUp(name)))
}
