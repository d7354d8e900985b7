/**
 * Follows a run to its end: a live line on a terminal, plain lines elsewhere. The run belongs to the service: when this
 * command is interrupted it goes on, unless the person says otherwise. Short outages of the service are waited out.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Interrupted } from '../errors.ts'
import type { Run } from './find.ts'
import type { Output, Part } from './output.ts'
import { createProgress, describeFigures, layOutProgress, type Progress } from './progress.ts'
import type { Service } from './service.ts'
import { mayPass, ServiceError } from './service-errors.ts'
import { widthOf } from './text-width.ts'
import { formatBytes, formatDuration, plural, showStatus } from './words.ts'

const LOOK_MS = 500
/** On pipes and in files: how often a line says how far it is. */
const LINE_MS = 10_000
/** A service may restart or be replaced while its run goes on. */
const OUTAGE_MS = 120_000
const INTERRUPTED = 130
/** Ctrl+C reaches all processes of the terminal, and the launcher forwards it once more: both count as one. */
const SAME_SIGNAL_MS = 500

export interface Followed {
  id: string
  /** Of the pipeline. */
  name: string
}

const isOver = ({ status }: Run): boolean => status !== 'pending' && status !== 'running'

/** The exit code: 0 success, 1 failed or cancelled by others, 130 after Ctrl+C. */
export async function followToEnd(service: Service, output: Output, run: Followed): Promise<number> {
  const interruption = listenForInterrupt()
  try {
    return sayEnd(output, run, await watch(service, output, run, interruption.signal))
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error
    output.live('')
    return await leave(service, output, run)
  } finally {
    output.live('')
    interruption.stop()
  }
}

function listenForInterrupt(): { signal: AbortSignal; stop(): void } {
  const pressed = new AbortController()
  let at = 0
  const listener = () => {
    if (pressed.signal.aborted && performance.now() - at > SAME_SIGNAL_MS) process.exit(INTERRUPTED)
    at = performance.now()
    pressed.abort(new Interrupted())
  }
  process.on('SIGINT', listener)
  return { signal: pressed.signal, stop: () => process.off('SIGINT', listener) }
}

async function watch(service: Service, output: Output, run: Followed, signal: AbortSignal): Promise<Run> {
  const progress = createProgress()
  const lines = createLines(output, run)
  let heardAt = Date.now()
  for (;;) {
    const now = await look(service, run.id, signal).catch((error: unknown) => {
      signal.throwIfAborted()
      if (!mayPass(error) || Date.now() - heardAt > OUTAGE_MS) throw error
      return null
    })
    if (now !== null) {
      heardAt = Date.now()
      progress.add(now)
      if (isOver(now)) return now
    }
    if (!output.json) {
      if (output.terminal) output.live(...showProgress(output, progress, run, now))
      else lines(progress, now)
    }
    await delay(LOOK_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
}

const look = (service: Service, id: string, signal: AbortSignal) =>
  service.call<Run>('GET', `/api/pipelines/runs/${id}`, undefined, signal)

function showProgress({ width }: Output, progress: Progress, { name }: Followed, now: Run | null): Part[] {
  const bar = progress.bar()
  if (now === null) return [{ style: 'yellow', text: `${name}: the service does not answer, waiting` }]
  if (now.status === 'pending' && now.waiting) {
    const [head, tail] = [`${bar} `, `. ${now.waiting}`]
    const isWide = widthOf(`${head}${name}: ${now.status}${tail}`) < width
    return [...(isWide ? [{ style: 'cyan', text: head } as const] : []), `${name}: `, showStatus(now.status), tail]
  }
  return layOutProgress({ bar, name, status: now.status }, progress.now(), width)
}

/** A line when the status changes, and one now and then. */
function createLines({ line }: Output, { id, name }: Followed): (progress: Progress, now: Run | null) => void {
  let [said, saidAt] = ['', 0]
  return (progress, now) => {
    const status = now?.status ?? 'the service does not answer, waiting'
    if (status === said && Date.now() - saidAt < LINE_MS) return
    const reached = progress.now()
    const figures = reached.records === 0 ? '' : `, ${describeFigures(reached)[0]}`
    line(`${name}: ${said === '' ? `run ${id} ` : ''}${status}${figures}`)
    said = status
    saidAt = Date.now()
  }
}

function sayEnd(output: Output, { id, name }: Followed, run: Run): number {
  output.live('')
  if (output.json) output.data(run)
  else {
    const took = Date.parse(run.finished_at ?? '') - Date.parse(run.started_at ?? run.created_at)
    const figures = `${plural(run.records_written, 'record')}, ${formatBytes(run.bytes_written)}`
    output.line(`${name}: `, showStatus(run.status), `, ${figures} in ${formatDuration(took || 0)} (run ${id})`)
    if (run.error !== null) output.note({ style: 'red', text: run.error })
    if (run.status === 'failed') output.note(`Read its log with: sluice logs ${id}`)
  }
  return run.status === 'success' ? 0 : 1
}

/** Asks once. Without a terminal nobody can be asked, and the run goes on. */
async function leave(service: Service, output: Output, run: Followed): Promise<number> {
  const { confirm } = await import('./prompt.ts')
  const wanted =
    process.stdin.isTTY === true &&
    (await confirm(`Cancel the run of ${run.name}? Otherwise it goes on without this command.`).catch(() => false))
  if (!wanted) {
    output.note(`The run goes on. Cancel it with: sluice cancel ${run.id}`)
    return INTERRUPTED
  }
  try {
    await service.call('POST', `/api/pipelines/runs/${run.id}/cancel`)
  } catch (error) {
    // It ended while the question was open.
    if (!(error instanceof ServiceError) || error.status !== 409) throw error
    return sayEnd(output, run, await service.call<Run>('GET', `/api/pipelines/runs/${run.id}`))
  }
  output.note(`The run ${run.id} was cancelled. What it had already committed stays.`)
  return INTERRUPTED
}
