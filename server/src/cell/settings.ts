import type { CellLimits } from './limits.ts'

/** The configuration of cells, in the form that is passed to other processes. */
export interface CellSettings {
  python: string
  sandbox: 'kernel' | 'none'
  limits: Partial<CellLimits>
  /** What custom sources may import beyond the standard modules. */
  modules: readonly string[]
}

export interface CellEnvironment {
  PYTHON: string
  SANDBOX: 'required' | 'none'
  CELL_MODULES: string[]
  CELL_MEMORY_MB: number
  CELL_CPU_SECONDS: number
  CELL_WALL_SECONDS: number
  CELL_MAX_RECORDS: number | undefined
  CELL_MAX_BYTES: number | undefined
  CELL_LOG_BYTES: number
  CELL_MAX_REQUESTS: number
  CELL_MAX_RESPONSE_BYTES: number
}

export function cellSettings(config: CellEnvironment): CellSettings {
  const limits: Partial<CellLimits> = {
    memory_mb: config.CELL_MEMORY_MB,
    cpu_seconds: config.CELL_CPU_SECONDS,
    wall_seconds: config.CELL_WALL_SECONDS,
    log_bytes: config.CELL_LOG_BYTES,
    max_requests: config.CELL_MAX_REQUESTS,
    max_response_bytes: config.CELL_MAX_RESPONSE_BYTES,
  }
  if (config.CELL_MAX_RECORDS !== undefined) limits.max_records = config.CELL_MAX_RECORDS
  if (config.CELL_MAX_BYTES !== undefined) limits.max_bytes = config.CELL_MAX_BYTES
  const sandbox = config.SANDBOX === 'none' ? 'none' : 'kernel'
  return { python: config.PYTHON, sandbox, limits, modules: config.CELL_MODULES }
}
