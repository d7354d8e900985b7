/** What the service takes and answers, and where it is in a folder. */
const KINDS = ['domains', 'sources', 'connections', 'pipelines'] as const
export type Kind = (typeof KINDS)[number]

export type Fields = Record<string, unknown>
export type Objects = Record<Kind, Fields[]>

export interface Problem {
  pointer: string
  message: string
  line: number | null
  column: number | null
}

export interface ChangedField {
  path: string
  before: unknown
  after: unknown
  secret: boolean
}

export interface ColumnDifference {
  name: string
  change: 'added' | 'removed' | 'type'
  before: string | null
  after: string | null
  effect: string
}

export interface SchemaOutlook {
  pipeline: string
  problem: string | null
  columns: { name: string; type: string }[] | null
  differences: ColumnDifference[] | null
}

export interface Change {
  kind: string
  name: string
  action: 'create' | 'change' | 'replace' | 'delete'
  fields: ChangedField[]
  effects: string[]
  schemas?: SchemaOutlook[]
}

export interface Plan {
  changes: Change[]
  problems: Problem[]
  base: string
  applied: boolean
}

/** As the service has it in connectors/settings/secrets.ts: a secret that stays what it is. */
export const MASK = '********'
