/** Commands for the operator of the machine. A new password is read from standard input, never from an argument. */
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { readConfig } from '../config/config.ts'
import { openOrJoinStore } from '../database/store.ts'
import { resetPassword } from '../identity/accounts.ts'
import { createServices } from '../services.ts'
import { UsageError } from './usage.ts'

export async function resetPasswordOf(email: string): Promise<number> {
  const password = (await ask(`New password for ${email}: `)).trim()
  if (password === '')
    throw new UsageError('No password was given, so nothing was changed; type it, or send it to standard input.')
  const services = await createServices(readConfig(), { open: openOrJoinStore })
  try {
    await resetPassword(services.db, email, password)
  } finally {
    await services.close()
  }
  console.log(`The password of ${email} was changed, and all its sessions were signed out.`)
  return 0
}

/** Empty where the input ended before a line did. On a terminal nothing that is typed is shown. */
async function ask(question: string): Promise<string> {
  const terminal = process.stdin.isTTY === true
  const unseen = new Writable({ write: (_chunk, _encoding, done) => done() })
  const input = createInterface({ input: process.stdin, output: unseen, terminal })
  if (terminal) process.stderr.write(question)
  try {
    return await new Promise((resolve) => {
      input.once('line', resolve)
      input.once('close', () => resolve(''))
    })
  } finally {
    input.close()
    if (terminal) process.stderr.write('\n')
  }
}
