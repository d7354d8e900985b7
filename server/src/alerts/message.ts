/**
 * What people read: which pipeline, what happened, why, since when, where to look and what to do. Names, errors and columns
 * come from tenants and their servers, so they are plain text of limited length here; each channel escapes them.
 */
import type { AlertEvent } from './alerts.ts'

/** As it is stored with a delivery (migration 0130, late.ts, test). */
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

export function composeMessage(payload: AlertPayload): Message {
  const { alert, pipeline, run } = payload
  const name = clean(pipeline?.name ?? '', LONGEST_NAME)
  const { title, lines } = describe(payload, name)
  const link = run
    ? { label: 'Open the run', path: `/runs/${run.id}` }
    : pipeline
      ? { label: 'Open the pipeline', path: `/pipelines/${pipeline.id}` }
      : null
  return { title, lines, link, footer: `Sent by the alert "${clean(alert.name, LONGEST_NAME)}".` }
}

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

function rangeOf({ min_records: least = null, max_records: most = null }: AlertPayload): string {
  if (least === null) return `at most ${count(most ?? 0, 'record')}`
  if (most === null) return `at least ${count(least, 'record')}`
  return `${least.toLocaleString('en')} to ${count(most, 'record')}`
}

function pastOf(payload: AlertPayload): string {
  const since = `since ${time(payload.opened_at)}`
  if (payload.kind === 'late') return `it was late ${since}`
  return payload.kind === 'row_count' ? `it had been outside of ${rangeOf(payload)} ${since}` : `it had failed ${since}`
}

function changesOf(changes: string[]): string[] {
  const shown = changes.slice(0, CHANGES_SHOWN).map((change) => `– ${clean(change, LONGEST_NAME)}`)
  const rest = changes.length - shown.length
  return rest > 0 ? [...shown, `and ${rest} more`] : shown
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
