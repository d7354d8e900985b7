/** Files that are named on the command line. */
import { readFile } from 'node:fs/promises'
import { OperatorError, UsageError } from '../errors.ts'

const CAUSES: Record<string, string> = {
  ENOENT: 'there is no such file or folder; check the path',
  ENOTDIR: 'a part of its path is a file; check the path',
  EISDIR: 'it is a folder; name a file',
  EEXIST: 'it is a file; name a folder',
  EACCES: 'you have no permission for it; change that, or choose another place',
  EPERM: 'you have no permission for it; change that, or choose another place',
  EROFS: 'its disk is read-only; choose another place',
  ENOSPC: 'its disk is full; free some space, or choose another place',
  ENAMETOOLONG: 'its name is too long; choose a shorter one',
}

/** Why a file cannot be used, and what to do. */
export function explainFile(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException
  return CAUSES[code] ?? `${message}; check the path and its permissions`
}

export async function readJsonFile(file: string): Promise<unknown> {
  const text = await readText(file)
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new OperatorError(`${file} is not valid JSON; correct it: ${(error as Error).message}`)
  }
}

export async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${explainFile(error)}.`)
  }
}
