/**
 * What people read: which pipeline, what happened, why, since when, where to look and what to do. Names, errors and columns
 * come from tenants and their servers, so they are plain text of limited length here; each channel escapes them.
 */
import type { AlertEvent } from './alerts.ts'

/** As it is stored with a delivery (migration 0130, late.ts, gather.ts, test). */
export interface AlertPayload {
  event: AlertEvent | 'test'
  /** Of the incident; null if the event has none. */
  kind: 'failed' | 'late' | 'row_count' | null
  alert: { id: string; name: string }
  pipeline: { id: string; name: string } | null
  run: RunOfAlert | null
  opened_at: string | null
  closed_at: string | null
  min_records?: number | null
  max_records?: number | null
  late_after_minutes?: number
  /** The last success, or when the pipeline was created or enabled after it. */
  late_since?: string
  changes?: string[] | null
  /** Of a message that tells many deliveries. */
  together?: Together
}

interface Together {
  pipelines: number
  /** The same pipeline may have failed and recovered more than once. */
  times: number
  /** Of the rule, if it watches one. */
  domain_id: string | null
  /** One delivery of each of the first pipelines. */
  first: (Omit<AlertPayload, 'alert' | 'together'> & { more_changes?: number })[]
}

interface RunOfAlert {
  id: string
  status: string
  error: string | null
  records_written: number
  finished_at: string | null
}

export interface Message {
  title: string
  lines: string[]
  link: { label: string; path: string } | null
  footer: string
}

const LONGEST_NAME = 200
const LONGEST_LINE = 1000
const CHANGES_SHOWN = 20
/** So that ten of them fit into one message of a chat. */
const LONGEST_NAME_OF_MANY = 60
const LONGEST_REASON_OF_MANY = 180
const NAMES_IN_TITLE = 3

export function composeMessage(payload: AlertPayload): Message {
  const { alert, pipeline, run, together } = payload
  const footer = `Sent by the alert "${clean(alert.name, LONGEST_NAME)}".`
  if (together) return { ...composeTogether(payload.event, together), footer }
  const name = clean(pipeline?.name ?? '', LONGEST_NAME)
  const { title, lines } = describe(payload, name)
  const link = run
    ? { label: 'Open the run', path: `/runs/${run.id}` }
    : pipeline
      ? { label: 'Open the pipeline', path: `/pipelines/${pipeline.id}` }
      : null
  return { title, lines, link, footer }
}

function composeTogether(event: AlertPayload['event'], together: Together): Omit<Message, 'footer'> {
  const { pipelines, times, first, domain_id } = together
  const names = first.map(({ pipeline }) => clean(pipeline?.name ?? '', LONGEST_NAME_OF_MANY))
  const title = titleOfMany(event, pipelines === 1 ? names[0]! : count(pipelines, 'pipeline'), pipelines)
  const lines = first.map((one, index) => `– ${names[index]}: ${reasonOfMany(one)}`)
  const list = new URLSearchParams({
    ...(event === 'failed' && { status: 'failed' }),
    ...(domain_id && { domain_id }),
  }).toString()
  return {
    title: pipelines === 1 ? `${title} ${count(times, 'time')}` : `${title}: ${listNames(names, pipelines)}`,
    lines: pipelines > first.length ? [...lines, andMore(pipelines - first.length)] : lines,
    link:
      pipelines === 1
        ? { label: 'Open the pipeline', path: `/pipelines/${first[0]!.pipeline?.id}` }
        : { label: 'Open the pipelines', path: `/pipelines${list && `?${list}`}` },
  }
}

function titleOfMany(event: AlertPayload['event'], who: string, pipelines: number): string {
  switch (event) {
    case 'recovered':
      return `● ${who} recovered`
    case 'late':
      return `○ ${who} ${pipelines === 1 ? 'was' : 'are'} late`
    case 'row_count':
      return `! ${who} wrote too few or too many records`
    case 'schema_changed':
      return `! The columns of ${who} changed`
    default:
      return `✕ ${who} failed`
  }
}

function reasonOfMany(one: Together['first'][number]): string {
  const { event, run } = one
  switch (event) {
    case 'recovered':
      return pastOf(one)
    case 'late':
      return `no run has succeeded since ${time(one.late_since)}`
    case 'row_count':
      return `${records(run)}, expected ${rangeOf(one)}`
    case 'schema_changed': {
      const changes = clean((one.changes ?? []).join(', '), LONGEST_REASON_OF_MANY)
      return one.more_changes ? `${changes} ${andMore(one.more_changes)}` : changes
    }
    default:
      return clean(run?.error ?? 'the run gives no reason', LONGEST_REASON_OF_MANY)
  }
}

function listNames(names: string[], all: number): string {
  const shown = names.slice(0, NAMES_IN_TITLE).join(', ')
  return all > NAMES_IN_TITLE ? `${shown} ${andMore(all - NAMES_IN_TITLE)}` : shown
}

const andMore = (number: number): string => `and ${number.toLocaleString('en')} more`

function describe(payload: AlertPayload, name: string): Pick<Message, 'title' | 'lines'> {
  const { event, run, opened_at } = payload
  switch (event) {
    case 'failed':
      return {
        title: `✕ ${name} failed`,
        lines: [reasonOf(run), `Since ${time(opened_at)}. Its log says more; run it again when the cause is gone.`],
      }
    case 'recovered':
      return {
        title: `● ${name} recovered`,
        lines: [`A run succeeded at ${time(run?.finished_at)} with ${records(run)}; ${pastOf(payload)}.`],
      }
    case 'late':
      return {
        title: `○ ${name} is late`,
        lines: [
          `No run has succeeded within ${count(payload.late_after_minutes ?? 0, 'minute')}, since ${time(payload.late_since)}.`,
          run?.status === 'failed'
            ? `The last run failed: ${reasonOf(run)}`
            : 'Check whether its schedule is right and whether a run hangs or waits.',
        ],
      }
    case 'row_count':
      return {
        title: `! ${name} wrote ${records(run)}`,
        lines: [
          `Expected: ${rangeOf(payload)}. The run succeeded at ${time(run?.finished_at)}; check whether its source is complete.`,
        ],
      }
    case 'schema_changed':
      return {
        title: `! The columns of ${name} changed`,
        lines: [...changesOf(payload.changes ?? []), 'Check what reads the destination.'],
      }
    case 'test':
      return { title: 'A test of this alert', lines: ['It works: this is where it is sent.'] }
  }
}

const reasonOf = (run: RunOfAlert | null): string => clean(run?.error ?? 'The run gives no reason', LONGEST_LINE)

const count = (number: number, thing: string) => `${number.toLocaleString('en')} ${thing}${number === 1 ? '' : 's'}`
const records = (run: RunOfAlert | null) => count(run?.records_written ?? 0, 'record')

type Limits = Pick<AlertPayload, 'min_records' | 'max_records'>

function rangeOf({ min_records: least = null, max_records: most = null }: Limits): string {
  if (least === null) return `at most ${count(most ?? 0, 'record')}`
  if (most === null) return `at least ${count(least, 'record')}`
  return `${least.toLocaleString('en')} to ${count(most, 'record')}`
}

function pastOf(payload: Limits & Pick<AlertPayload, 'kind' | 'opened_at'>): string {
  const since = `since ${time(payload.opened_at)}`
  if (payload.kind === 'late') return `it was late ${since}`
  return payload.kind === 'row_count' ? `it had been outside of ${rangeOf(payload)} ${since}` : `it had failed ${since}`
}

function changesOf(changes: string[]): string[] {
  const shown = changes.slice(0, CHANGES_SHOWN).map((change) => `– ${clean(change, LONGEST_NAME)}`)
  const rest = changes.length - shown.length
  return rest > 0 ? [...shown, andMore(rest)] : shown
}

const time = (at: string | null | undefined): string => (at ? `${at.slice(0, 10)} ${at.slice(11, 16)} UTC` : 'now')

/** One line, without characters that hide or reorder others. */
const clean = (text: string, longest: number): string => {
  const line = text
    .slice(0, 4 * longest)
    .toWellFormed()
    .replace(/[\s\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu, ' ')
    .trim()
  return line.length > longest ? `${line.slice(0, longest).toWellFormed()}…` : line
}
