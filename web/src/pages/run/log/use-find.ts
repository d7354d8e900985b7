/** Finding a text in the whole log: the server tells which lines have it, and the page goes from one to the next. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { readLines } from './use-log.ts'

/** The most that one answer holds. */
const MOST = 10_000

export interface Find {
  /** Numbers of the lines that match, in order. */
  hits: number[]
  /** There are more of them, earlier in the log. */
  more: boolean
  searching: boolean
  error: unknown
  /** The index of the hit that is shown; -1 if there is none. */
  at: number
  step(by: 1 | -1): void
  /** Grows with every step, also with one that leads to the same line. */
  steps: number
}

/** `lineCount` grows while the run goes on: what came since the last answer is searched again when the person steps on. */
export function useFind(id: string, q: string, lineCount: number): Find {
  const [known, setKnown] = useState(lineCount)
  const found = useQuery({
    queryKey: ['log search', id, q, known],
    queryFn: ({ signal }) => readLines(id, { q, limit: MOST }, signal),
    enabled: q !== '',
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 30_000,
  })
  const hits = q === '' ? NONE : (found.data?.numbers ?? NONE)
  const [current, setCurrent] = useState<number | null>(null)
  // Another text begins at its last hit.
  useEffect(() => {
    setCurrent(null)
    setKnown(lineCount)
  }, [q])
  // From the end of the log upwards: the newest hit is what one looks for.
  const at = current === null ? hits.length - 1 : hits.indexOf(current)
  const [steps, setSteps] = useState(0)
  function step(by: 1 | -1) {
    setSteps(steps + 1)
    if (lineCount !== known) setKnown(lineCount)
    if (hits.length > 0) setCurrent(hits[(at + by + hits.length) % hits.length]!)
  }
  return {
    hits,
    more: q !== '' && found.data?.more === true,
    searching: q !== '' && found.isFetching,
    error: found.error,
    at,
    step,
    steps,
  }
}

const NONE: number[] = []
