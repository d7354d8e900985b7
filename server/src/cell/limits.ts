/**
 * What one call of a cell may use. Exceeding a limit ends the call with an error that names the limit and its value.
 */
export interface CellLimits {
  /** In addition to what the interpreter and its libraries already map. */
  memory_mb: number
  cpu_seconds: number
  wall_seconds: number
  max_records: number
  /** For pages out of the cell and for bodies into it, separately. */
  max_bytes: number
  log_bytes: number
  /** HTTP requests of one call, retries and redirects included. */
  max_requests: number
  /** One answer, after decompression. */
  max_response_bytes: number
}

export const DEFAULT_CELL_LIMITS: Readonly<CellLimits> = {
  memory_mb: 512,
  cpu_seconds: 7200,
  wall_seconds: 43_200,
  max_records: 1_000_000_000,
  max_bytes: 1024 ** 4,
  log_bytes: 10 * 1024 ** 2,
  max_requests: 1_000_000,
  max_response_bytes: 64 * 1024 ** 2,
}

/** The setting with which an operator changes a limit; errors name it. */
export const LIMIT_SETTINGS: Readonly<Record<keyof CellLimits, string>> = {
  memory_mb: 'CELL_MEMORY_MB',
  cpu_seconds: 'CELL_CPU_SECONDS',
  wall_seconds: 'CELL_WALL_SECONDS',
  max_records: 'CELL_MAX_RECORDS',
  max_bytes: 'CELL_MAX_BYTES',
  log_bytes: 'CELL_LOG_BYTES',
  max_requests: 'CELL_MAX_REQUESTS',
  max_response_bytes: 'CELL_MAX_RESPONSE_BYTES',
}

const MIB = 1024 ** 2

/** Validation, preview and check are interactive: looking at a few records needs less than reading all of them. */
const INTERACTIVE: Readonly<Partial<CellLimits>> = {
  wall_seconds: 30,
  // Wall time ends a call first; this is for a cell that outlives its call.
  cpu_seconds: 60,
  log_bytes: MIB,
  max_requests: 200,
  max_response_bytes: 8 * MIB,
  max_bytes: 32 * MIB,
}

/** The operator's limits, reduced to what an interactive call needs. */
export function interactiveLimits<L extends Partial<CellLimits>>(limits: L): L & typeof INTERACTIVE {
  const lesser = Object.entries(INTERACTIVE).map(([name, most]) => [
    name,
    Math.min(most, limits[name as keyof CellLimits] ?? most),
  ])
  return { ...limits, ...Object.fromEntries(lesser) }
}
