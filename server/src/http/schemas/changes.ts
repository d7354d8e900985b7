import { KINDS, type Kind, MAX_OBJECTS } from '../../changes/shape.ts'
import { Type } from '../../schema.ts'
import { Name, Nullable, Problem } from './common.ts'

const ABOUT: Record<Kind, string> = {
  domains: '`name`, and optionally `description` and `color`',
  sources: '`source_name`, `name`, `code`, and optionally `description` and `language` (python or manifest)',
  connections:
    '`name`, `type` (source or destination), `connector_name`, `config`, and optionally `description`. A secret sent as ******** keeps its stored value',
  pipelines:
    '`name`, `config`, and optionally `domain` (its name), `schedule`, `timezone` and `enabled`. In `config`, `connection` is the name of a saved source or destination',
}

const AnyObject = (description: string) =>
  Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true, description })
const listOf = (kind: Kind) => Type.Optional(Type.Array(AnyObject(ABOUT[kind]), { maxItems: MAX_OBJECTS[kind] }))

const lists = Object.fromEntries(KINDS.map((kind) => [kind, listOf(kind)])) as Record<Kind, ReturnType<typeof listOf>>

export const DesiredObjects = Type.Object(lists, {
  description: 'What there should be. The name says which object is meant; a field that is absent has its default',
})
export const ExportedObjects = Type.Object(lists)

const Base = Type.String({ maxLength: 100, description: 'Says which state of the organization was planned with' })

export const ChangesRequest = Type.Object({
  objects: DesiredObjects,
  prune: Type.Optional(Type.Boolean({ default: false, description: 'Delete what is not described' })),
  dry_run: Type.Optional(Type.Boolean({ default: false, description: 'Only say what would be changed' })),
  base: Type.Optional({
    ...Base,
    description: 'Of the plan: if the organization has changed since, nothing is changed (409)',
  }),
  domain: Type.Optional({ ...Name, description: 'Only this domain and its pipelines are concerned, also by prune' }),
  schemas: Type.Optional(
    Type.Boolean({
      default: false,
      description:
        'With dry_run: also ask the sources of pipelines that read something else which columns they have now. Takes up to a minute',
    }),
  ),
})

export const ChangedField = Type.Object({
  path: Type.String({ description: 'Such as config.sync.cursor_field' }),
  before: Type.Unsafe<import('../../json/json.ts').Json>({ description: 'Null where there was none, and for secrets' }),
  after: Type.Unsafe<import('../../json/json.ts').Json>({}),
  secret: Type.Boolean({ description: 'It is a secret: only that it changes is told' }),
})

const ColumnTypeName = Type.String({ description: 'A column type of the platform' })
export const ColumnDifference = Type.Object({
  name: Type.String(),
  change: Type.Enum(['added', 'removed', 'type']),
  before: Nullable(ColumnTypeName),
  after: Nullable(ColumnTypeName),
  effect: Type.String({ description: 'What it means for the target' }),
})

export const SchemaOutlook = Type.Object({
  pipeline: Type.String(),
  problem: Nullable(Type.String({ description: 'Why the source did not answer' })),
  columns: Nullable(
    Type.Array(Type.Object({ name: Type.String(), type: ColumnTypeName }), {
      description: 'After the choice of columns, at most 200. Null: only reading would tell, or there was no answer',
    }),
  ),
  differences: Nullable(
    Type.Array(ColumnDifference, {
      description: 'From what the last run read, at most 200. Null: there was none, or it loaded into another target',
    }),
  ),
})

export const PlannedChange = Type.Object({
  kind: Type.Enum(['domain', 'source', 'connection', 'pipeline']),
  name: Type.String(),
  action: Type.Enum(['create', 'change', 'replace', 'delete']),
  fields: Type.Array(ChangedField),
  effects: Type.Array(Type.String(), { description: 'What it means for runs, state and tables' }),
  schemas: Type.Optional(
    Type.Array(SchemaOutlook, { description: 'With schemas: of the pipelines that read something else' }),
  ),
})

export const ChangesProblem = Type.Object({
  pointer: Type.String({ description: 'JSON pointer into the request' }),
  message: Type.String(),
  line: Nullable(Type.Integer({ description: 'In code, from 1' })),
  column: Nullable(Type.Integer({ description: 'In code, from 0' })),
})

export const ChangesResult = Type.Object({
  changes: Type.Array(PlannedChange),
  problems: Type.Array(ChangesProblem, { description: 'What would stop it; empty where it was applied' }),
  base: Base,
  applied: Type.Boolean(),
})

export const ChangesRefused = Type.Object(
  { ...Problem.properties, problems: Type.Optional(Type.Array(ChangesProblem)) },
  { description: 'Nothing was changed' },
)

export const ExportQuery = Type.Object({
  domain: Type.Optional({ ...Name, description: 'Only this domain, by its name, with what its pipelines use' }),
})

export const ExportResult = Type.Object({
  objects: ExportedObjects,
  omitted: Type.Array(Type.Enum([...KINDS]), { description: 'Kinds that the caller may not read' }),
})
