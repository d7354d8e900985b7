/**
 * The objects of an organization as files hold them: complete, without ids, and referring to each other by name. A field
 * that is absent has its default. `config` of a pipeline is what the API takes, except that a side refers to a saved
 * connector by `connection`, its name.
 */

import { anyObject, closed } from '../connections/endpoint-shape.ts'
import { type Static, Type } from '../schema.ts'
import { LONGEST_NAME } from '../tenancy/names.ts'

const name = (description: string) =>
  Type.String({ minLength: 1, maxLength: LONGEST_NAME, pattern: '\\S', description })
const nullable = (maxLength: number, description: string) =>
  Type.Optional(Type.Union([Type.String({ maxLength, description }), Type.Null()], { description }))
const description = nullable(2000, 'A text for people.')

export const domainFrame = Type.Object(
  {
    name: name('Its name, unique in the organization.'),
    description,
    color: Type.Optional(
      Type.Union(
        [Type.String({ pattern: '^#[0-9A-Fa-f]{6}$', description: '#RRGGBB, such as #3366cc.' }), Type.Null()],
        {
          description: '#RRGGBB, such as #3366cc.',
        },
      ),
    ),
  },
  closed,
)

export const connectionFrame = Type.Object(
  {
    name: name('Its name, by which pipelines refer to it.'),
    type: Type.Enum(['source', 'destination'], { description: 'What it connects to.' }),
    connector_name: Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'The connector, such as postgres, or the source_name of a custom source.',
    }),
    description,
    config: Type.Optional(anyObject),
  },
  closed,
)

export const sourceFrame = Type.Object(
  {
    source_name: Type.String({
      minLength: 1,
      maxLength: 100,
      pattern: '^[A-Za-z][A-Za-z0-9_.-]*$',
      description: 'By which pipelines refer to it: a letter, then letters, digits, _ . and -.',
    }),
    name: name('Its name for people.'),
    description,
    language: Type.Optional(Type.Enum(['python', 'manifest'], { description: 'What its code is. Default: python.' })),
    code: Type.String({ minLength: 1, description: 'The Python code, or the YAML of the manifest.' }),
  },
  closed,
)

export const LONGEST_SCHEDULE = 200
export const LONGEST_TIMEZONE = 100

export const pipelineFrame = Type.Object(
  {
    name: name('Its name.'),
    domain: nullable(LONGEST_NAME, 'The name of its domain. Default: none.'),
    schedule: nullable(
      LONGEST_SCHEDULE,
      'Cron with five fields: minute, hour, day, month, weekday. Default: manual runs only.',
    ),
    timezone: nullable(LONGEST_TIMEZONE, 'IANA name such as Europe/Berlin. Default: UTC.'),
    enabled: Type.Optional(Type.Boolean({ description: 'Whether the schedule starts runs. Default: true.' })),
    config: Type.Object(
      { source: anyObject, destination: anyObject },
      { additionalProperties: true, description: 'source, destination, and optionally sync, columns and run.' },
    ),
  },
  closed,
)

type DesiredDomain = Static<typeof domainFrame>
export type DesiredConnection = Omit<Static<typeof connectionFrame>, 'config'> & { config?: Record<string, unknown> }
export type DesiredSource = Static<typeof sourceFrame>
export type DesiredPipeline = Omit<Static<typeof pipelineFrame>, 'config'> & { config: Record<string, unknown> }

/** An object that is not well-formed is null; the others keep their places. */
export interface DesiredObjects {
  domains: (DesiredDomain | null)[]
  sources: (DesiredSource | null)[]
  connections: (DesiredConnection | null)[]
  pipelines: (DesiredPipeline | null)[]
}

/** In the order in which they are created: each refers only to those before it. */
export const KINDS = ['domains', 'sources', 'connections', 'pipelines'] as const
export type Kind = (typeof KINDS)[number]

export const frameOf = {
  domains: domainFrame,
  sources: sourceFrame,
  connections: connectionFrame,
  pipelines: pipelineFrame,
} as const

/** Of one request. */
export const MAX_OBJECTS: Record<Kind, number> = { domains: 1000, sources: 1000, connections: 2000, pipelines: 5000 }

export const wordOf = {
  domains: 'domain',
  sources: 'source',
  connections: 'connection',
  pipelines: 'pipeline',
} as const satisfies Record<Kind, string>
