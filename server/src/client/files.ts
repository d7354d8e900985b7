/** Files that are named on the command line. */
import { readFile } from 'node:fs/promises'
import { OperatorError, UsageError } from '../errors.ts'

export async function readJsonFile(file: string): Promise<unknown> {
  const text = await readText(file)
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new OperatorError(`${file} is not valid JSON: ${(error as Error).message}`)
  }
}

export async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}`)
  }
}
