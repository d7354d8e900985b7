/** A file that appears whole or not at all. */
import { randomUUID } from 'node:crypto'
import { constants, createWriteStream, type WriteStream } from 'node:fs'
import { access, link, open, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { UsageError } from '../errors.ts'
import { explainFile } from './files.ts'

export interface Destination {
  stream: WriteStream
  /** After the stream has ended: the file takes its name. */
  keep(): Promise<void>
  discard(): Promise<void>
}

/** `fresh`: a file that exists is never replaced. */
export async function openFile(file: string, fresh: boolean): Promise<Destination> {
  const refuse = () => new UsageError(`${file} exists and was left as it is; choose another name with -o.`)
  if (fresh && (await exists(file))) throw refuse()
  const part = path.join(path.dirname(file), `.${path.basename(file)}.${randomUUID()}.part`)
  const handle = await open(part, 'wx', 0o666).catch((error: Error) => {
    throw new UsageError(`${file} cannot be written: ${explainFile(error)}.`)
  })
  // Flushed before it gets its name, so that a crash of the machine does not leave an empty file under it.
  const stream = createWriteStream(part, { fd: handle, flush: true })
  return {
    stream,
    async keep() {
      try {
        if (!fresh) return await rename(part, file)
        await link(part, file)
      } catch (error) {
        if (fresh && (error as NodeJS.ErrnoException).code === 'EEXIST') throw refuse()
        throw new UsageError(`${file} cannot be written: ${explainFile(error)}.`)
      }
      await rm(part, { force: true })
    },
    async discard() {
      stream.destroy()
      await rm(part, { force: true })
    },
  }
}

const exists = (file: string): Promise<boolean> =>
  access(file, constants.F_OK).then(
    () => true,
    () => false,
  )
