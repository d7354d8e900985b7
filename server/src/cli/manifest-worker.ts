/** A thread of `sluice manifest check`: it is sent files one by one, and sends back what each of them is. */
import { readFile } from 'node:fs/promises'
import { parentPort } from 'node:worker_threads'
import { checkManifest, type Verdict } from '../connectors/registry.ts'

export async function checkFile(file: string): Promise<Verdict> {
  try {
    return await checkManifest(await readFile(file, 'utf8'))
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return { runs: 'no', streams: 0, runnable: 0, reasons: [`the file cannot be read: ${reason}`] }
  }
}

parentPort?.on('message', async (file: string) => parentPort?.postMessage(await checkFile(file)))
