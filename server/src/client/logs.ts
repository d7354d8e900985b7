/** `sluice logs RUN`: the log of a run, whole, searched, or followed until the run has ended. */
import { setTimeout as delay } from 'node:timers/promises'
import { OperatorError } from '../errors.ts'
import { readEvents } from './event-stream.ts'
import { findRun } from './find.ts'
import { type Options, readChoice, readCount } from './options.ts'
import { createOutput, type Output, type Styled } from './output.ts'
import { connectService, type Service } from './service.ts'
import { mayPass } from './service-errors.ts'

const LEVELS = ['debug', 'info', 'warn', 'error'] as const
type Level = (typeof LEVELS)[number]

interface Filter {
  text: string | undefined
  level: Level | undefined
  tail: number | undefined
}

export async function showLogs(given: string, options: Options): Promise<number> {
  const output = createOutput(options)
  const filter: Filter = {
    text: options['--grep'],
    level: readChoice(options, '--level', LEVELS),
    tail: readCount(options, '--tail', 1_000_000),
  }
  const service = await connectService(options)
  const { id } = await findRun(service, given)
  if (options['--follow'] !== undefined) return follow(service, output, id, filter)
  for (const line of await readLines(service, id, filter)) print(output, line)
  return 0
}

const PAGE = 10_000

/** A search returns the last lines that match; the earlier ones are asked for page by page. */
async function readLines(service: Service, id: string, { text, level, tail }: Filter): Promise<string[]> {
  const place = `/api/pipelines/runs/${id}/logs`
  if (text === undefined && level === undefined)
    return split((await service.call<{ logs: string }>('GET', tail ? `${place}?tail=${tail}` : place)).logs)
  const pages: string[][] = []
  let before: number | undefined
  let left = tail ?? Number.POSITIVE_INFINITY
  for (;;) {
    const query = new URLSearchParams({
      limit: String(Math.min(PAGE, left)),
      ...(text !== undefined && { q: text }),
      ...(level && { level }),
      ...(before !== undefined && { before: String(before) }),
    })
    const page = await service.call<{ logs: string; numbers: number[] | null; more: boolean }>(
      'GET',
      `${place}?${query}`,
    )
    const lines = split(page.logs)
    pages.unshift(lines)
    left -= lines.length
    before = page.numbers?.[0]
    if (!page.more || left <= 0 || before === undefined || lines.length === 0) return pages.flat()
  }
}

const split = (logs: string): string[] => (logs === '' ? [] : logs.replace(/\n$/, '').split('\n'))

const OUTAGE_MS = 120_000
const RETRY_MS = 1000
/** The service sends something at least every 15 s. */
const IDLE_MS = 60_000

/** Continues after the last line that was shown when the connection breaks. */
async function follow(service: Service, output: Output, id: string, filter: Filter): Promise<number> {
  if (filter.tail !== undefined) throw new OperatorError('--tail shows the end of a log, --follow all of it; use one.')
  let last = ''
  let heardAt = Date.now()
  for (;;) {
    try {
      const answer = await service.open('GET', `/api/pipelines/runs/${id}/logs/stream`, {
        headers: { accept: 'text/event-stream', ...(last !== '' && { 'last-event-id': last }) },
        idleMs: IDLE_MS,
      })
      heardAt = Date.now()
      for await (const { id: number, event, data } of readEvents(answer)) {
        heardAt = Date.now()
        if (event === 'end') return 0
        if (event !== 'line') continue
        last = number
        if (matches(data, filter)) print(output, data)
      }
    } catch (error) {
      if (!mayPass(error) || Date.now() - heardAt > OUTAGE_MS) throw error
    }
    await delay(RETRY_MS)
  }
}

const LINE = /^(\d{4}-\S+) (DEBUG|INFO|WARN|ERROR) {1,2}(.*)$/s

function matches(line: string, { text, level }: Filter): boolean {
  if (text !== undefined && !line.toLowerCase().includes(text.toLowerCase())) return false
  if (level === undefined) return true
  const own = LINE.exec(line)?.[2]?.toLowerCase() as Level | undefined
  return own !== undefined && LEVELS.indexOf(own) >= LEVELS.indexOf(level)
}

const STYLES: Partial<Record<string, Styled['style']>> = { DEBUG: 'dim', WARN: 'yellow', ERROR: 'red' }

function print(output: Output, line: string): void {
  const [, time, level, message] = LINE.exec(line) ?? []
  if (output.json) output.data(level === undefined ? { message: line } : { time, level: level.toLowerCase(), message })
  else if (level === undefined) output.line(line)
  else {
    const style = STYLES[level]
    const name = level.padEnd(5)
    output.line({ style: 'dim', text: `${time} ` }, style ? { style, text: name } : name, ` ${message}`)
  }
}
