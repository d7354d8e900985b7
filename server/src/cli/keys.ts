/** `sluice keys rotate`: after a new key was put first in ENCRYPTION_KEY, re-encrypts everything with it. */
import { readConfig } from '../config/config.ts'
import { type RotationProgress, rotateKeys } from '../database/key-rotation.ts'
import { openOrJoinStore } from '../database/store.ts'
import { createServices } from '../services.ts'

export async function rotate(): Promise<number> {
  const services = await createServices(readConfig(), { open: openOrJoinStore })
  const stop = new AbortController()
  const interrupt = () => stop.abort()
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt)
  try {
    const all = await rotateKeys(services.db, services.box, show, stop.signal)
    if (stop.signal.aborted) {
      console.log('Stopped. Nothing is lost; run it again to continue.')
      return 1
    }
    return conclude(all)
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt)
    await services.close()
  }
}

const show = ({ table, sealed, lost }: RotationProgress): void =>
  console.log(`${table}: ${sealed} re-encrypted${lost.length > 0 ? `, ${lost.length} cannot be decrypted` : ''}`)

function conclude(all: RotationProgress[]): number {
  const lost = all.flatMap(({ table, lost }) => lost.map((id) => `${table} ${id}`))
  if (lost.length === 0) {
    console.log('Everything is encrypted with the first key of ENCRYPTION_KEY; the other keys can be removed.')
    return 0
  }
  console.log(
    `These cannot be decrypted with any key of ENCRYPTION_KEY and were left unchanged; add their key, or save them again:`,
  )
  for (const each of lost) console.log(`  ${each}`)
  return 1
}
