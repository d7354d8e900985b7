/** Questions to the person at the terminal. */
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { Interrupted } from '../errors.ts'
import { cleanLine } from './clean.ts'

/**
 * A secret, from the terminal, where nothing that is typed is shown, or from the first line of standard input. Empty if
 * the input ended before a line did.
 */
export function askSecret(question: string): Promise<string> {
  const terminal = process.stdin.isTTY === true
  const unseen = new Writable({ write: (_chunk, _encoding, done) => done() })
  return readAnswer(terminal ? question : '', unseen, terminal).finally(() => {
    if (terminal) process.stderr.write('\n')
  })
}

/** Only ask where standard input is a terminal. Anything but y or yes is no. */
export async function confirm(question: string): Promise<boolean> {
  const answer = await readAnswer(`${question} [y/N] `, process.stderr, true)
  return /^y(es)?$/i.test(answer.trim())
}

async function readAnswer(question: string, output: NodeJS.WritableStream, terminal: boolean): Promise<string> {
  // Before the question: from here on the terminal no longer shows what is typed by itself.
  const input = createInterface({ input: process.stdin, output, terminal })
  process.stderr.write(cleanLine(question))
  try {
    return await new Promise((resolve, reject) => {
      input.once('line', resolve)
      input.once('close', () => resolve(''))
      input.once('SIGINT', () => reject(new Interrupted()))
    })
  } finally {
    input.close()
  }
}
