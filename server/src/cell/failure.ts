/** Why a call failed, with advice for its owner: one sentence and one kind per cause. */
import { ConnectorError, type FailureKind } from '../connectors/contract.ts'
import type { CellErrorReport } from './frames.ts'
import { type CellLimits, LIMIT_SETTINGS } from './limits.ts'
import type { CellExit } from './zygote-process.ts'

export class CellFailure extends ConnectorError {
  /** The author's own lines, without those of the platform; empty if the failure is not an exception. */
  readonly traceback: string
  /** The limit that ended the call, if any. */
  readonly limit: keyof CellLimits | null
  /** Its value. */
  readonly value: number | null
  constructor(
    kind: FailureKind,
    message: string,
    options: {
      transient?: boolean
      cause?: unknown
      traceback?: string
      limit?: keyof CellLimits
      value?: number
    } = {},
  ) {
    super(kind, message, options)
    this.name = 'CellFailure'
    this.traceback = options.traceback ?? ''
    this.limit = options.limit ?? null
    this.value = options.value ?? null
  }
}

/** A source sent a request in a call without network. */
export class NetworkMissing extends CellFailure {
  constructor() {
    super('source', 'the source sends HTTP requests, but this call has no network')
  }
}

const UNITS: Readonly<Record<keyof CellLimits, string>> = {
  memory_mb: 'MB of memory',
  cpu_seconds: 'seconds of processor time',
  wall_seconds: 'seconds',
  max_records: 'records',
  max_bytes: 'bytes',
  log_bytes: 'bytes of log',
  max_requests: 'HTTP requests',
  max_response_bytes: 'bytes in one answer',
}

const KINDS: Partial<Record<keyof CellLimits, FailureKind>> = {
  memory_mb: 'memory',
  cpu_seconds: 'timeout',
  wall_seconds: 'timeout',
}

export function limitReached(limit: keyof CellLimits, value: number): CellFailure {
  const verb = limit === 'wall_seconds' ? 'ran longer than' : 'used more than'
  return new CellFailure(
    KINDS[limit] ?? 'limit',
    `the source ${verb} ${value} ${UNITS[limit]} (limit ${LIMIT_SETTINGS[limit]})`,
    { limit, value },
  )
}

export function protocolBroken(reason: string): CellFailure {
  return new CellFailure('sandbox', `the source violated the protocol of the cell and was stopped: ${reason}`)
}

const REPORTED_KINDS = new Set<FailureKind>(['source', 'config', 'auth', 'rate_limited', 'limit', 'timeout'])

/** An error that the cell reports. Its kind is claimed by untrusted code, so only harmless kinds are accepted. */
export function explainReport(report: CellErrorReport, limits: CellLimits): CellFailure {
  if (report.kind === 'memory') return limitReached('memory_mb', limits.memory_mb)
  if (report.kind === 'seal') {
    return new CellFailure('sandbox', `the cell could not be sealed, so nothing was run: ${report.text}`)
  }
  const kind = report.kind as FailureKind
  const text = report.text === '' ? report.type : `${report.type}: ${report.text}`
  return new CellFailure(REPORTED_KINDS.has(kind) ? kind : 'source', text, {
    transient: report.transient || kind === 'rate_limited',
    traceback: report.traceback,
  })
}

const EXIT_OUT_OF_MEMORY = 77
const EXIT_NOT_SEALED = 71
const EXIT_NOT_FORKED = 72

/** A cell that ended without a last frame, explained by its exit status. */
export function explainExit(exit: CellExit, limits: CellLimits): CellFailure {
  if (exit.lost) return new CellFailure('internal', 'the Python zygote exited unexpectedly', { transient: true })
  switch (exit.signal) {
    case 'SIGSYS':
      return new CellFailure('sandbox', 'sandbox violation: the source made a forbidden system call and was stopped')
    case 'SIGXCPU':
      return limitReached('cpu_seconds', limits.cpu_seconds)
    case 'SIGKILL':
      if (exit.cpu_ms >= limits.cpu_seconds * 1000) return limitReached('cpu_seconds', limits.cpu_seconds)
      return new CellFailure('memory', 'the source was killed by the system, most likely because memory ran out', {
        transient: true,
      })
    case null:
      break
    default:
      return new CellFailure('source', `the Python interpreter of the source crashed (${exit.signal})`)
  }
  if (exit.code === EXIT_OUT_OF_MEMORY) return limitReached('memory_mb', limits.memory_mb)
  if (exit.code === EXIT_NOT_SEALED) return new CellFailure('sandbox', 'the cell could not be sealed')
  if (exit.code === EXIT_NOT_FORKED) {
    return new CellFailure('internal', 'the machine cannot start another process', { transient: true })
  }
  return new CellFailure('source', `the source exited (exit code ${exit.code}) before it was finished`)
}
