/** `sluice login`, `whoami`, `logout`: which service the other commands call, and with which key. */
import { readAddress } from '../config/client-config.ts'
import { UsageError } from '../errors.ts'
import type { Options } from './options.ts'
import { createOutput } from './output.ts'
import { checkProfileName, listProfiles, profilesFile, readProfiles, writeProfiles } from './profiles.ts'
import { askSecret } from './prompt.ts'
import { connectService, createService, type Service } from './service.ts'

interface Me {
  name: string
  email: string
  role: string
  organization: { id: string; name: string }
  permissions: string[]
}

const askWho = (service: Service) => service.call<Me>('GET', '/api/auth/me')

export async function login(address: string, options: Options): Promise<number> {
  const output = createOutput(options)
  const url = readAddress(address, 'URL')
  const name = checkProfileName(options['--profile'] ?? 'default')
  // Before the key is typed: what is wrong with the file should be known by then.
  await readProfiles()
  if (isExposed(url)) output.note(`${url} is not https, so the key crosses the network readable by others.`)
  if (process.stdin.isTTY) output.note(`Create an API key at ${url}/settings/api-keys, and paste it here.`)
  const key = (await askSecret('API key: ')).trim()
  if (key === '') throw new UsageError('No key was given, so nothing was saved; type it, or send it to standard input.')
  const me = await askWho(createService(url, key, name))
  // Read again: another command may have changed it while the key was typed.
  const { profiles } = await readProfiles()
  await writeProfiles({ current: name, profiles: { ...profiles, [name]: { url, api_key: key } } })
  if (output.json) output.data({ profile: name, url, ...whoIs(me) })
  else output.line(`Signed in to ${url} as ${me.name}, ${me.role} of ${me.organization.name} (profile ${name}).`)
  return 0
}

const LOCAL = ['localhost', '127.0.0.1', '[::1]']

function isExposed(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  return protocol === 'http:' && !LOCAL.includes(hostname)
}

const whoIs = ({ name, email, role, organization, permissions }: Me) => ({
  name,
  email,
  role,
  organization: { id: organization.id, name: organization.name },
  permissions,
})

export async function whoami(options: Options): Promise<number> {
  const output = createOutput(options)
  const service = await connectService(options)
  const me = await askWho(service)
  if (output.json) {
    output.data({ profile: service.profile, url: service.url, ...whoIs(me) })
    return 0
  }
  const { profiles } = await readProfiles()
  const others = Object.keys(profiles).filter((name) => name !== service.profile)
  output.line(`${me.name} <${me.email}>, ${me.role} of ${me.organization.name}`)
  output.line(`${service.url} (${service.profile === null ? 'SLUICE_API_KEY' : `profile ${service.profile}`})`)
  if (others.length > 0) output.line(`Other profiles: ${others.join(', ')}`)
  return 0
}

/** The key stays valid in the service: others may use it, and a key alone may not be allowed to revoke itself. */
export async function logout(options: Options): Promise<number> {
  const output = createOutput(options)
  const { current, profiles } = await readProfiles()
  const name = options['--profile'] ?? current
  if (name === null || !Object.hasOwn(profiles, name))
    throw new UsageError(
      name === null
        ? 'You are not signed in, so there is no key to forget; sluice login signs you in.'
        : `There is no profile '${name}', so there is no key to forget; ${listProfiles(profiles)}.`,
    )
  const { [name]: gone, ...rest } = profiles
  const next = current === name ? (Object.keys(rest)[0] ?? null) : current
  await writeProfiles({ current: next, profiles: rest })
  if (output.json) output.data({ profile: name, url: gone!.url, current: next })
  else {
    output.line(`The key for ${gone!.url} (profile ${name}) was removed from ${profilesFile()}.`)
    output.line(`It still works elsewhere until it is revoked at ${gone!.url}/settings/api-keys.`)
    if (next !== null && current === name) output.line(`The profile ${next} is now used.`)
  }
  return 0
}
