import { type Static, Type } from '../../schema.ts'
import { ConnectorError, type Either, identity, overridable } from '../contract.ts'
import { expandUrl, MOST_URLS } from './expand-url.ts'

const RUN_ID = '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'

const either: Either = [
  { title: 'A file on the web', fields: ['url'] },
  { title: 'Several files', fields: ['urls'] },
  { title: 'The output of a run', fields: ['run_id'] },
  { title: 'The outputs of several runs', fields: ['run_ids'] },
]

export const settings = Type.Object(
  {
    url: Type.Optional(
      identity(
        Type.String({
          minLength: 1,
          maxLength: 8192,
          pattern: '^https?://',
          description:
            'The http or https address of the file. {a,b} and {01..12} after the host stand for several: they are read one after the other.',
        }),
      ),
    ),
    urls: Type.Optional(
      identity(
        Type.Array(Type.String({ minLength: 1, maxLength: 8192, pattern: '^https?://' }), {
          minItems: 1,
          maxItems: MOST_URLS,
          description: 'The same for several addresses: their files are read one after the other, in this order.',
        }),
      ),
    ),
    run_id: Type.Optional(
      identity(
        Type.String({
          pattern: RUN_ID,
          description: 'The id of a successful run of this organization whose output is read.',
        }),
      ),
    ),
    run_ids: Type.Optional(
      identity(
        Type.Array(Type.String({ pattern: RUN_ID }), {
          minItems: 1,
          maxItems: 100,
          description: 'The same for several runs: their outputs are read one after the other, in this order.',
        }),
      ),
    ),
    format: overridable(
      Type.Optional(
        Type.Union([Type.Literal('jsonl'), Type.Literal('json'), Type.Literal('csv'), Type.Literal('parquet')], {
          description:
            'jsonl: one object per line. json: one array of objects. Default: detected from the file name, then from the first bytes.',
        }),
      ),
    ),
    delimiter: overridable(
      Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 1,
          description: 'The delimiter of a CSV. Default: detected.',
        }),
      ),
    ),
    header: overridable(
      Type.Boolean({
        default: true,
        description: 'Whether the first line of a CSV names its columns. If not, they are column0, column1 and so on.',
      }),
    ),
  },
  { additionalProperties: false, either },
)

export type FileSettings = Static<typeof settings>

/** One spelling of an address and of an id. User and password in an address are secrets, so they are left out. */
export function canonicalFile(config: FileSettings): Record<string, unknown> {
  const places = findPlaces(config)
  const { url, urls, run_id, run_ids, ...rest } = config
  const found = places.map((place) => ('run_id' in place ? place.run_id.toLowerCase() : canonicalUrl(place.url)))
  if (run_ids !== undefined) return { ...rest, run_ids: found }
  if (run_id !== undefined) return { ...rest, run_id: found[0] }
  return { ...rest, ...(urls === undefined && found.length === 1 ? { url: found[0] } : { urls: found }) }
}

function canonicalUrl(url: string): string {
  const address = URL.parse(url)
  if (address === null) throw refuse('`url` is not a valid address')
  address.username = address.password = address.hash = ''
  return address.href
}

export type FilePlace = { url: string } | { run_id: string }

/** A rule that the schema cannot express: exactly one of the places. The files to read, in order; at least one. */
export function findPlaces({ url, urls, run_id, run_ids }: FileSettings): FilePlace[] {
  const given = Object.entries({ url, urls, run_id, run_ids }).flatMap(([name, value]) =>
    value === undefined ? [] : [name],
  )
  if (given.length > 1)
    throw refuse(`${given.map((name) => `\`${name}\``).join(' and ')} are both given; give only one of them`)
  if (url !== undefined) return expandUrl(url).map((each) => ({ url: each }))
  if (urls !== undefined) return expandAll(urls).map((each) => ({ url: each }))
  if (run_id !== undefined) return [{ run_id }]
  if (run_ids !== undefined) return run_ids.map((id) => ({ run_id: id }))
  throw refuse('neither `url` nor `run_id` is given; give one of them')
}

function expandAll(urls: readonly string[]): string[] {
  const all: string[] = []
  for (const url of urls) {
    all.push(...expandUrl(url))
    if (all.length > MOST_URLS) throw refuse(`\`urls\` stands for more than ${MOST_URLS} addresses`)
  }
  return all
}

function refuse(message: string): ConnectorError {
  return new ConnectorError('config', `The file settings cannot be used: ${message}.`)
}
