/** Commands for the operator of the machine. A new password is read from standard input, never from an argument. */
import { cleanLine, escapeControls } from '../client/clean.ts'
import { askSecret } from '../client/prompt.ts'
import { layOut } from '../client/table.ts'
import { readConfig } from '../config/config.ts'
import { openOrJoinStore } from '../database/store.ts'
import { UsageError } from '../errors.ts'
import { resetPassword } from '../identity/accounts.ts'
import { createOwnerAccount, listAllOrganizations, listAllUsers, revokeAccess } from '../identity/operator.ts'
import { createServices, type Services } from '../services.ts'
import { requireInstallation } from './open-database.ts'

async function withServices<T>(work: (services: Services) => Promise<T>): Promise<T> {
  const services = await createServices(readConfig(), { open: openOrJoinStore })
  try {
    return await work(services)
  } finally {
    await services.close()
  }
}

/** For commands that only make sense where there is something. */
function withInstallation<T>(work: (services: Services) => Promise<T>): Promise<T> {
  requireInstallation(readConfig(), 'of the installation')
  return withServices(work)
}

export async function resetPasswordOf(email: string): Promise<number> {
  const password = await askPassword(email)
  await withServices(({ db }) => resetPassword(db, email, password))
  console.log(`The password of ${email} was changed, and all its sessions were signed out.`)
  return 0
}

/** The first account too, so it may create the installation. */
export async function createOwner(email: string, options: Record<string, string>): Promise<number> {
  const organization_name = options['--organization']?.trim()
  if (!organization_name) throw new UsageError('sluice admin create-owner needs --organization NAME.')
  const name = options['--name']?.trim() || email.split('@')[0]!
  const password = await askPassword(email)
  const { slug } = await withServices(({ db }) => createOwnerAccount(db, { email, name, organization_name, password }))
  console.log(`${email} is the owner of ${organization_name} (${slug}).`)
  return 0
}

export async function revokeAccessOf(email: string): Promise<number> {
  const { sessions, keys } = await withInstallation(({ db }) => revokeAccess(db, email))
  console.log(`${email}: ${sessions} sessions were signed out and ${keys} API keys revoked.`)
  return 0
}

export async function listOrganizations(options: Record<string, string>): Promise<number> {
  const all = await withInstallation(({ db }) => listAllOrganizations(db))
  if (options['--json']) console.log(escapeControls(JSON.stringify(all, null, 2)))
  else
    printTable(
      ['SLUG', 'NAME', 'OWNER', 'MEMBERS', 'PIPELINES', 'SINCE'],
      all.map((o) => [o.slug, o.name, o.owner ?? '–', o.members, o.pipelines, o.created_at.slice(0, 10)]),
    )
  return 0
}

export async function listUsers(options: Record<string, string>): Promise<number> {
  const all = await withInstallation(({ db }) => listAllUsers(db, options['--organization'] ?? null))
  if (options['--json']) console.log(escapeControls(JSON.stringify(all, null, 2)))
  else
    printTable(
      ['EMAIL', 'NAME', 'ROLES', 'LAST USED'],
      all.map((u) => [u.email, u.name, u.roles.join(', ') || '–', u.last_used_at?.slice(0, 10) ?? '–']),
    )
  return 0
}

/** Names come from tenants: what a terminal would obey is not printed. */
function printTable(titles: string[], rows: (string | number)[][]): void {
  const cells = rows.map((row) => row.map((cell) => cleanLine(String(cell))))
  const lines = layOut(
    titles.map((title) => ({ title })),
    cells,
    null,
  )
  for (const line of lines)
    console.log(
      line
        .map(({ text }) => text)
        .join('')
        .trimEnd(),
    )
}

async function askPassword(email: string): Promise<string> {
  const password = (await askSecret(`New password for ${email}: `)).trim()
  if (password === '')
    throw new UsageError('No password was given, so nothing was changed; type it, or send it to standard input.')
  return password
}
