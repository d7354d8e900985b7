import type { Extension } from '@codemirror/state'

export type Language = 'python' | 'yaml' | 'json' | 'sql'

/** Each language is a chunk of its own, loaded with the first editor that needs it. */
export async function loadLanguage(name: Language): Promise<Extension> {
  if (name === 'python') return (await import('@codemirror/lang-python')).python()
  if (name === 'yaml') return (await import('@codemirror/lang-yaml')).yaml()
  if (name === 'json') return (await import('@codemirror/lang-json')).json()
  return (await import('@codemirror/lang-sql')).sql()
}
