/** A plan for people: on a terminal, and as Markdown for the comment of a pull request. */

import { cleanLine } from '../clean.ts'
import type { Output, Part, Styled } from '../output.ts'
import type { Change, ChangedField, ColumnDifference, Plan, SchemaOutlook } from './objects.ts'
import type { LocatedProblem } from './read-folder.ts'

const SIGNS = { create: '+', change: '~', replace: '±', delete: '-' } as const
const STYLES: Record<Change['action'], Styled['style']> = {
  create: 'green',
  change: 'yellow',
  replace: 'yellow',
  delete: 'red',
}
const WORDS = { create: 'create', change: 'change', replace: 'replace', delete: 'delete' } as const

export function showPlan(output: Output, { changes }: Pick<Plan, 'changes'>): void {
  for (const { action, kind, name, fields, effects, schemas = [] } of changes) {
    output.line({ style: STYLES[action], text: `${SIGNS[action]} ${kind} ` }, { style: 'bold', text: name })
    for (const field of fields) output.line(`    ${field.path}: `, ...describeField(field))
    for (const effect of effects) output.line({ style: 'cyan', text: `    → ${effect}` })
    for (const { sign, text } of schemas.flatMap((schema) => describeSchema(schema, { kind, action })))
      output.line({ style: SCHEMA_STYLES[sign], text: `    ${sign} ${text}` })
  }
  output.line(
    changes.length === 0 ? 'Nothing to do: the organization has all that the files describe.' : `${sumUp(changes)}.`,
  )
}

const SCHEMA_SIGNS = { added: '+', removed: '-', type: '~' } as const
type SchemaSign = (typeof SCHEMA_SIGNS)[ColumnDifference['change']] | '?' | '='
const SCHEMA_STYLES: Record<SchemaSign, Styled['style']> = {
  '+': 'green',
  '-': 'red',
  '~': 'yellow',
  '?': 'dim',
  '=': 'dim',
}
const MOST_COLUMNS = 10

/** A line per column that differs, or one that says why nothing is known; of a new pipeline one with its columns. */
function describeSchema(
  { pipeline, problem, columns, differences }: SchemaOutlook,
  { kind, action }: Pick<Change, 'kind' | 'action'>,
): { sign: SchemaSign; text: string }[] {
  const of = kind === 'pipeline' ? '' : `'${pipeline}': `
  if (problem !== null) return [{ sign: '?', text: `${of}columns unknown: ${problem}` }]
  if (columns === null) return [{ sign: '?', text: `${of}columns unknown: only reading the stream tells` }]
  if (differences === null) {
    if (action !== 'create') return []
    const shown = columns.slice(0, MOST_COLUMNS).map(({ name, type }) => `${name} ${type}`)
    const rest = columns.length > shown.length ? [`and ${columns.length - shown.length} more`] : []
    return [{ sign: '=', text: `${of}columns: ${[...shown, ...rest].join(', ')}` }]
  }
  return differences.map(({ name, change, before, after, effect }) => {
    const types = [before, after].filter((type) => type !== null).join(' → ')
    return { sign: SCHEMA_SIGNS[change], text: `${of}column ${name} ${types}: ${effect}` }
  })
}

function describeField({ path, before, after, secret }: ChangedField): Part[] {
  if (secret || path === 'code') return ['changed']
  return [{ style: 'red', text: spell(before) }, ' → ', { style: 'green', text: spell(after) }]
}

const LONGEST = 100

function spell(value: unknown): string {
  if (value === null || value === undefined) return 'none'
  const text = JSON.stringify(value)
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text
}

/** "1 to create, 2 to change". */
export function sumUp(changes: readonly Change[], done = false): string {
  const counts = (Object.keys(WORDS) as Change['action'][]).map((action) => ({
    action,
    count: changes.filter((change) => change.action === action).length,
  }))
  return counts
    .filter(({ count }) => count > 0)
    .map(({ action, count }) => (done ? `${count} ${WORDS[action]}d` : `${count} to ${WORDS[action]}`))
    .join(', ')
}

/** As a person goes through them: file by file, from top to bottom; then those that are of no file. */
export const compareProblems = (a: LocatedProblem, b: LocatedProblem): number =>
  compare(a.file ?? LAST, b.file ?? LAST) || compare(a.line ?? 0, b.line ?? 0) || compare(a.column ?? 0, b.column ?? 0)

const LAST = '\uffff'
const compare = <T extends string | number>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0)

export const describeProblem = ({ file, line, column, message }: LocatedProblem): string =>
  file === undefined ? message : `${file}:${line}:${column}: ${message}`

export function toMarkdown({ changes }: Pick<Plan, 'changes'>, problems: readonly LocatedProblem[]): string {
  const lines = ['### Sluice plan', '']
  if (problems.length > 0) {
    lines.push(`**${problems.length === 1 ? 'One problem' : `${problems.length} problems`}**`, '')
    lines.push(...problems.map((problem) => `- ${code(describeProblem(problem))}`), '')
  }
  if (changes.length === 0) {
    if (problems.length === 0) lines.push('Nothing to do: the organization has all that the files describe.')
    return `${lines.join('\n').trimEnd()}\n`
  }
  lines.push(`**${sumUp(changes)}**`, '')
  for (const { action, kind, name, fields, effects, schemas = [] } of changes) {
    lines.push(`- ${WORDS[action]} ${kind} ${code(name)}`)
    for (const field of fields) lines.push(`  - ${code(field.path)}: ${describeFieldInMarkdown(field)}`)
    for (const effect of effects) lines.push(`  - ⚠ ${code(effect)}`)
    for (const { sign, text } of schemas.flatMap((schema) => describeSchema(schema, { kind, action })))
      lines.push(`  - ${code(`${sign} ${text}`)}`)
  }
  return `${lines.join('\n')}\n`
}

const describeFieldInMarkdown = ({ path, before, after, secret }: ChangedField): string =>
  secret || path === 'code' ? 'changed' : `${code(spell(before))} → ${code(spell(after))}`

/** As code, so that no name can become a link, a mention or HTML in a comment. */
function code(given: string): string {
  const text = cleanLine(given)
  const longest = Math.max(0, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length))
  const fence = '`'.repeat(longest + 1)
  const pad = text.startsWith('`') || text.endsWith('`') || text.trim() === '' ? ' ' : ''
  return `${fence}${pad}${text}${pad}${fence}`
}
