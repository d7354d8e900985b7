/** What only the operator of the machine may do. A new password is read from standard input, never from an argument. */
import { createInterface } from 'node:readline/promises'
import { readConfig } from '../config/config.ts'
import { openOrJoinStore } from '../database/store.ts'
import { AppError } from '../errors.ts'
import { resetPassword } from '../identity/accounts.ts'
import { createServices } from '../services.ts'

export async function admin(args: string[]): Promise<number> {
  const [what, email] = args
  if (what !== 'reset-password' || !email)
    throw new AppError('invalid_input', 'Usage: sluice admin reset-password EMAIL')
  const input = createInterface({ input: process.stdin, output: process.stderr })
  const password = (await input.question(`New password for ${email}: `)).trim()
  input.close()
  const services = await createServices(readConfig(), { open: openOrJoinStore })
  try {
    await resetPassword(services.db, email, password)
  } finally {
    await services.close()
  }
  console.log(`The password of ${email} was changed, and all its sessions were signed out.`)
  return 0
}
