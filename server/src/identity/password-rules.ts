/** What a new password needs. The console shows the same rules while one is typed, so this file imports nothing. */
const RULES: [RegExp, string][] = [
  [/^[\s\S]{8,}$/u, 'at least 8 characters'],
  [/\p{Lu}/u, 'an uppercase letter'],
  [/\p{Ll}/u, 'a lowercase letter'],
  [/\p{Nd}/u, 'a number'],
  [/[^\p{L}\p{N}\s]/u, 'a special character'],
]

export function missingIn(password: string): string[] {
  return RULES.filter(([pattern]) => !pattern.test(password)).map(([, rule]) => rule)
}
