import { useId, useState } from 'react'
import fieldStyles from '../field.module.css'
import { isObject, labelOf, type Schema } from './schema.ts'
import { SchemaField } from './schema-field.tsx'
import styles from './schema-form.module.css'

interface Props {
  label: string
  path: string
  /** Without null. */
  schema: Schema
  required: boolean
  value: unknown
  onChange(value: unknown): void
  problems: Record<string, string>
}

/** A value of one of several shapes: first which one, then its form. */
export function Variants({ label, path, schema, required, value, onChange, problems }: Props) {
  const id = useId()
  const members = schema.anyOf ?? schema.oneOf ?? []
  const [chosen, setChosen] = useState(-1)
  const fits = members.findIndex((member) => isOf(member, value))
  // What was chosen counts while nothing is typed yet, and where a value would fit several shapes.
  const current = value === undefined || (chosen !== -1 && isOf(members[chosen]!, value)) ? chosen : fits
  const member = members[current]
  function choose(place: number) {
    setChosen(place)
    onChange(place === -1 ? undefined : startOf(members[place]!))
  }
  return (
    <div className={styles.group}>
      <label className="visually-hidden" htmlFor={id}>
        {label}: kind
      </label>
      <select
        id={id}
        className={fieldStyles.input}
        value={current}
        onChange={(event) => choose(Number(event.target.value))}
      >
        {(!required || current === -1) && <option value={-1}>{required ? 'Choose…' : 'Not set'}</option>}
        {members.map((option, place) => (
          <option key={titleOf(option)} value={place}>
            {titleOf(option)}
          </option>
        ))}
      </select>
      {member && (
        <SchemaField
          name={titleOf(member)}
          path={path}
          schema={withoutMark(member)}
          required
          bare
          value={value}
          onChange={(changed) => onChange(changed ?? startOf(member))}
          problems={problems}
        />
      )}
    </div>
  )
}

/** The property that tells one shape from the others, and its value. */
function markOf(schema: Schema): [string, unknown] | null {
  const found = Object.entries(schema.properties ?? {}).find(([, property]) => property.const !== undefined)
  return found ? [found[0], found[1].const] : null
}

function titleOf(schema: Schema): string {
  if (schema.title) return schema.title
  const mark = markOf(schema)
  if (mark) return labelOf(String(mark[1]), {})
  return { string: 'As a text', object: 'In detail', array: 'As a list' }[String(schema.type)] ?? String(schema.type)
}

function isOf(schema: Schema, value: unknown): boolean {
  const mark = markOf(schema)
  if (mark) return isObject(value) && value[mark[0]] === mark[1]
  if (schema.type === 'object') return isObject(value)
  if (schema.type === 'array') return Array.isArray(value)
  if (schema.type === 'integer') return typeof value === 'number'
  return typeof value === schema.type
}

function startOf(schema: Schema): unknown {
  const mark = markOf(schema)
  if (mark) return { [mark[0]]: mark[1] }
  return { object: {}, array: [], string: '' }[String(schema.type)]
}

/** The chosen shape says it already, so its form does not ask again. */
function withoutMark(schema: Schema): Schema {
  const mark = markOf(schema)
  if (!mark) return schema
  const { [mark[0]]: _, ...properties } = schema.properties!
  return { ...schema, properties }
}
