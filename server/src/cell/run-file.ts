/** `sluice cell run FILE`: runs a file sealed like a tenant's code, without validation, and prints all its output. */
import { readFile } from 'node:fs/promises'
import type { Authentication } from '../connectors/contract.ts'
import type { Egress } from '../egress/policy.ts'
import type { Json } from '../json/json.ts'
import { CellFailure } from './failure.ts'
import { connect } from './interactive.ts'
import { getZygote } from './provider.ts'
import type { Zygote } from './zygote.ts'

export interface RunFileOptions {
  egress?: Egress
  authentication?: Authentication
  config?: Record<string, Json>
  zygote?: Zygote
  /** Records as lines of JSON; default: standard output. */
  write?(bytes: Buffer): void
  /** Logs and errors; default: standard error. */
  say?(line: string): void
}

/** The exit code: 0 if the file ran to its end. */
export async function runCellFile(file: string, options: RunFileOptions = {}): Promise<number> {
  const zygote = options.zygote ?? getZygote()
  const write = options.write ?? ((bytes: Buffer) => void process.stdout.write(bytes))
  const say = options.say ?? ((line: string) => void process.stderr.write(`${line}\n`))
  const log = (level: string, line: string): void => say(`${level}: ${line}`)
  const { call, redact } = connect(options, zygote, log)
  const job: Json = {
    op: 'run_file',
    code: await readFile(file, 'utf8'),
    config: (options.config ?? {}) as Json,
    authentication: { type: options.authentication?.type ?? 'none' },
  }
  try {
    await zygote.call(job, {
      ...call,
      log,
      redact,
      page({ bytes, state }) {
        write(bytes)
        if (state !== undefined) say(`state: ${JSON.stringify(state)}`)
      },
    })
    return 0
  } catch (error) {
    if (!(error instanceof CellFailure)) throw error
    if (error.traceback !== '') say(error.traceback.trimEnd())
    say(`${error.kind}: ${error.message}`)
    return 1
  }
}
