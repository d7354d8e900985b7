/**
 * The cells of this process, started at first use. The entry point of the process configures (`configureCells`) and
 * closes them (`closeCells`); connectors and routes only use them.
 */
import { startZygote, type Zygote, type ZygoteOptions } from './zygote.ts'

let options: ZygoteOptions = {}
let zygote: Zygote | null = null

export function configureCells(given: ZygoteOptions): void {
  if (zygote !== null) throw new Error('configureCells must be called before the first cell is used')
  options = given
}

export function getZygote(): Zygote {
  zygote ??= startZygote(options)
  return zygote
}

export async function closeCells(): Promise<void> {
  const closing = zygote
  zygote = null
  await closing?.close()
}
