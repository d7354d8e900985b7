/** Validation while typing: what the server says about the text as it was a moment ago. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { type SourceLanguage, type Validation, validateCode } from './authored.ts'

const PAUSE_MS = 200

export interface LiveValidation {
  /** Of the text that is in the editor now; null until the answer is here. */
  current: Validation | null
  /** The last answer, of this text or of an earlier one. */
  latest: Validation | null
  /** The last valid one: what the form and the list of streams are made of, so that a typing error does not empty them. */
  lastValid: Validation | null
  error: Error | null
}

/** Answers to earlier texts are dropped, and their requests ended. */
export function useValidation(language: SourceLanguage, code: string, enabled: boolean): LiveValidation {
  const paused = usePaused(code)
  const { data, error, isPlaceholderData } = useQuery({
    queryKey: ['validation', language, paused],
    queryFn: ({ signal }) => validateCode(language, paused, signal),
    placeholderData: keepPreviousData,
    enabled: enabled && paused.trim() !== '',
    staleTime: Number.POSITIVE_INFINITY,
    // Every text that was ever typed is not worth its memory.
    gcTime: 30_000,
  })
  const lastValid = useRef<Validation | null>(null)
  if (data?.valid) lastValid.current = data
  return {
    current: data !== undefined && !isPlaceholderData && paused === code ? data : null,
    latest: data ?? null,
    lastValid: lastValid.current,
    error,
  }
}

function usePaused(code: string): string {
  const [paused, setPaused] = useState(code)
  useEffect(() => {
    const timer = setTimeout(() => setPaused(code), PAUSE_MS)
    return () => clearTimeout(timer)
  }, [code])
  return paused
}
