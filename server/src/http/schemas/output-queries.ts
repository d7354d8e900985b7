import { MAX_ROWS } from '../../executors/answers.ts'
import { Type } from '../../schema.ts'
import { NOT_BLANK } from './common.ts'

const QueryColumn = Type.Object({
  name: Type.String(),
  type: Type.String({ description: 'A column type of the platform: int64, decimal(18,2), text, timestamptz, json, …' }),
})

export const QueryOutput = Type.Object({
  sql: Type.String({
    minLength: 1,
    maxLength: 50_000,
    pattern: NOT_BLANK,
    description:
      'One statement that reads: SELECT, WITH, DESCRIBE, SUMMARIZE, EXPLAIN. The output is the table `output`',
  }),
  format: Type.Optional(Type.Enum(['json', 'csv'], { description: '`json` unless given' })),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: MAX_ROWS, description: 'The most rows to return; 1000 unless given' }),
  ),
})

export const QueryResult = Type.Object({
  columns: Type.Array(QueryColumn),
  rows: Type.Array(Type.Array(Type.Unknown()), {
    description: 'One array per row, in the order of the columns. Numbers have all of their digits',
  }),
  truncated: Type.Boolean({ description: 'There are more rows than were returned' }),
  execution_time_ms: Type.Integer(),
})

const truncated = {
  'X-Truncated': { type: 'string', enum: ['true', 'false'], description: 'As CSV: whether there are more rows' },
}
export const QueryAnswer = {
  description: 'The rows',
  headers: truncated,
  content: { 'application/json': { schema: QueryResult }, 'text/csv': { schema: Type.String() } },
}

export const SampleQuery = Type.Object({ rows: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }) })
