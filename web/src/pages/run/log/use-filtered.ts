/** The lines of a level and of those above it. The server searches all of the log; lines that come later are added here. */
import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { type Level, type LogLines, splitLine, textsOf } from './log-lines.ts'
import type { Rows } from './log-rows.tsx'
import { readLines } from './use-log.ts'

const MOST = 10_000
const LEVELS: Level[] = ['debug', 'info', 'warn', 'error']

interface Filtered extends Rows {
  pending: boolean
  error: unknown
  more: boolean
}

/** Null: nothing is filtered. */
export function useFiltered(id: string, level: Level | undefined, lines: LogLines): Filtered | null {
  const answer = useQuery({
    queryKey: ['log level', id, level],
    queryFn: async ({ signal }) => {
      // Lines that arrive while the server looks must not be missed; those it has found too are not added twice.
      const after = lines.last
      return { after, ...(await readLines(id, { level: level!, limit: MOST }, signal)) }
    },
    enabled: level !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  })
  const { last } = lines
  const found = useMemo(() => {
    const { data } = answer
    if (data === undefined) return { numbers: [], texts: new Map<number, string>() }
    const all = textsOf(data)
    const texts = new Map(data.numbers.map((number, index) => [number, all[index]!]))
    const least = LEVELS.indexOf(level!)
    for (let number = data.after + 1; number <= last; number += 1) {
      const text = lines.textOf(number)
      if (text !== undefined && LEVELS.indexOf(splitLine(text).level!) >= least) texts.set(number, text)
    }
    return { numbers: [...texts.keys()].sort((one, other) => one - other), texts }
  }, [answer, level, lines, last])
  if (level === undefined) return null
  const { numbers, texts } = found
  return {
    pending: answer.isPending,
    error: answer.error,
    more: answer.data?.more === true,
    rows: numbers.length,
    numberAt: (row) => numbers[row]!,
    rowOf: (number) => {
      const at = numbers.findIndex((each) => each >= number)
      return at < 0 ? Math.max(0, numbers.length - 1) : at
    },
    textOf: (number) => texts.get(number),
  }
}
