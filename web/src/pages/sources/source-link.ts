import type { SourceLanguage } from './authored.ts'

/** Where a source is edited. */
export function addressOf({ id, language }: { id: string; language: SourceLanguage }) {
  return language === 'python'
    ? ({ to: '/sources/$id', params: { id } } as const)
    : ({ to: '/sources/manifests/$id', params: { id } } as const)
}
