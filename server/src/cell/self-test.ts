/**
 * Proves at start that the sandbox works on this machine: a cell tries, in native code, to open a socket, to open a
 * file, to map executable memory and to start a program. If an attempt succeeds, or the answer is invalid, no tenant
 * code is run.
 */

import type { Json } from '../json/json.ts'
import type { CellHandlers, CellOutcome } from './call.ts'

export interface SelfTestResult {
  ok: boolean
  reason: string
}

const PROBES = ['socket', 'open', 'executable mapping'] as const

export async function runSelfTest(
  call: (job: Json, handlers: CellHandlers) => Promise<CellOutcome>,
): Promise<SelfTestResult> {
  const { result, exit } = await call({ op: 'self_test' }, {})
  const probes = result as Record<string, Json>
  for (const probe of PROBES) {
    if (probes[probe] !== 'refused') return { ok: false, reason: `the kernel did not refuse: ${probe}` }
  }
  const { signal } = await exit
  if (signal !== 'SIGSYS') return { ok: false, reason: 'the kernel did not refuse: starting a program' }
  return { ok: true, reason: 'socket, open, executable mapping and execve are refused by the kernel' }
}
