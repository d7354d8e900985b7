import Type from 'typebox'
import { ConnectorError, identity, overridable } from '../contract.ts'

const RUN_ID = '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'

export const settings = Type.Object(
  {
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
  { additionalProperties: false },
)

export type FileSettings = Type.Static<typeof settings>

/** One spelling of an address and of an id. User and password in an address are secrets, so they are left out. */
export function canonicalFile(config: FileSettings): Record<string, unknown> {
  const [place] = findPlaces(config)
  const { url, run_id, run_ids, ...rest } = config
  if ('run_id' in place!) {
    const runs = run_ids === undefined ? { run_id: place.run_id.toLowerCase() } : { run_ids: run_ids.map(lower) }
    return { ...rest, ...runs }
  }
  const address = URL.parse(place!.url)
  if (address === null) throw refuse('`url` is not a valid address')
  address.username = address.password = address.hash = ''
  return { ...rest, url: address.href }
}

const lower = (text: string): string => text.toLowerCase()

export type FilePlace = { url: string } | { run_id: string }

/** A rule that the schema cannot express: exactly one of the places. The files to read, in order; at least one. */
export function findPlaces({ url, run_id, run_ids }: FileSettings): FilePlace[] {
  const given = Object.entries({ url, run_id, run_ids }).flatMap(([name, value]) => (value === undefined ? [] : [name]))
  if (given.length > 1)
    throw refuse(`${given.map((name) => `\`${name}\``).join(' and ')} are both given; give only one of them`)
  if (url !== undefined) return [{ url }]
  if (run_id !== undefined) return [{ run_id }]
  if (run_ids !== undefined) return run_ids.map((id) => ({ run_id: id }))
  throw refuse('neither `url` nor `run_id` is given; give one of them')
}

function refuse(message: string): ConnectorError {
  return new ConnectorError('config', `The file settings cannot be used: ${message}.`)
}
