/** Where a database file is: at an address, or among the outputs of the organization's own runs. */
import { Type } from '../../schema.ts'
import { ConnectorError, type Either, identity } from '../contract.ts'

const RUN_ID = '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'

export const placeSettings = {
  url: Type.Optional(
    identity(
      Type.String({
        minLength: 1,
        maxLength: 8192,
        pattern: '^https?://',
        description: 'The http or https address of the file.',
      }),
    ),
  ),
  run_id: Type.Optional(
    identity(
      Type.String({
        pattern: RUN_ID,
        description: 'The id of a successful run of this organization whose output is the file.',
      }),
    ),
  ),
}

export const eitherPlace: Either = [
  { title: 'A file on the web', fields: ['url'] },
  { title: 'The output of a run', fields: ['run_id'] },
]

export interface PlaceSettings {
  url?: string
  run_id?: string
}

export const AUTH_TYPES = ['api_key', 'bearer', 'basic', 'oauth2_client_credentials', 'oauth2_refresh_token'] as const

/** One spelling of an address and of an id. User and password in an address are secrets, so they are left out. */
export function canonicalPlace(settings: PlaceSettings): PlaceSettings {
  const place = requirePlace(settings)
  if ('run_id' in place) return { run_id: place.run_id.toLowerCase() }
  const address = URL.parse(place.url)
  if (address === null) throw refuse('`url` is not a valid address')
  address.username = address.password = address.hash = ''
  return { url: address.href }
}

/** A rule that the schema cannot express: one of the two. */
export function requirePlace({ url, run_id }: PlaceSettings): { url: string } | { run_id: string } {
  if (url !== undefined && run_id !== undefined)
    throw refuse('`url` and `run_id` are both given; give only one of them')
  if (url !== undefined) return { url }
  if (run_id !== undefined) return { run_id }
  throw refuse('neither `url` nor `run_id` is given; give one of them')
}

function refuse(message: string): ConnectorError {
  return new ConnectorError('config', `The settings cannot be used: ${message}.`)
}

/** The runs whose outputs are read. */
export const outputsOf = ({ run_id }: PlaceSettings): string[] => (run_id === undefined ? [] : [run_id])
