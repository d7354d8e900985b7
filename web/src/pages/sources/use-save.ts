import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type AuthoredSource, type SourceInput, type SourceLanguage, saveSource } from './authored.ts'
import type { Draft } from './draft.ts'

/** Saves what is in the editor. A refused save changes nothing on the page. */
export function useSave(
  language: SourceLanguage,
  saved: AuthoredSource | null,
  onSaved: (id: string, draft: Draft) => void,
) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async (draft: Draft) => ({ draft, ...(await saveSource(language, saved?.id ?? null, toInput(draft))) }),
    onSuccess: async ({ id, draft }) => {
      if (saved !== null) await queries.invalidateQueries({ queryKey: ['sources'] })
      else void queries.invalidateQueries({ queryKey: ['sources'] })
      void queries.invalidateQueries({ queryKey: ['catalogue', 'source'] })
      onSaved(id, draft)
    },
  })
}

function toInput({ name, source_name, description, code }: Draft): SourceInput {
  return { name: name.trim() || titleOf(source_name), source_name, description: description.trim() || null, code }
}

/** "music_catalog" → "Music catalog" */
export function titleOf(source_name: string): string {
  const words = source_name.replace(/[_.-]+/g, ' ').trim()
  return words.charAt(0).toUpperCase() + words.slice(1)
}

export function isChanged(draft: Draft, saved: Draft): boolean {
  return (
    draft.code !== saved.code ||
    draft.name !== saved.name ||
    draft.description !== saved.description ||
    draft.source_name !== saved.source_name
  )
}
