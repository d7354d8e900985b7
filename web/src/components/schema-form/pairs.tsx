import { Button } from '../button.tsx'
import fieldStyles from '../field.module.css'
import { Icon } from '../icon.tsx'
import { useDraft } from './draft.ts'
import { readScalar, writeScalar } from './scalar.ts'
import { isObject, isSecret, kindOf, type Schema } from './schema.ts'
import styles from './schema-form.module.css'

interface Props {
  label: string
  schema: Schema
  value: unknown
  onChange(value: unknown): void
}

interface Row {
  name: string
  text: string
}

/** Names and their values: headers, queries, renamed columns. */
export function Pairs({ label, schema, value, onChange }: Props) {
  const inner = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : {}
  const kind = kindOf(inner)
  const isText = kind === 'text' || kind === 'long'
  const read = (text: string) => (isText ? text : (readScalar(text) ?? ''))
  const [rows, change] = useDraft<Row[]>(value, onChange, (stored) => toRows(stored, isText))
  function set(changed: Row[]) {
    const entries = changed.filter(({ name }) => name.trim() !== '').map(({ name, text }) => [name.trim(), read(text)])
    change(changed, entries.length === 0 ? undefined : Object.fromEntries(entries))
  }
  const edit = (place: number, row: Row) => set(rows.map((old, at) => (at === place ? row : old)))
  return (
    <div className={styles.rows}>
      {rows.map((row, place) => (
        <div key={place} className={styles.pair}>
          <input
            className={fieldStyles.input}
            aria-label={`${label}: name ${place + 1}`}
            placeholder="Name"
            autoComplete="off"
            spellCheck={false}
            value={row.name}
            onChange={(event) => edit(place, { ...row, name: event.target.value })}
          />
          {kind === 'long' ? (
            <textarea
              className={styles.area}
              aria-label={`${label}: value ${place + 1}`}
              rows={3}
              spellCheck={false}
              placeholder={inner.contentMediaType === 'application/sql' ? 'SELECT …' : undefined}
              value={row.text}
              onChange={(event) => edit(place, { ...row, text: event.target.value })}
            />
          ) : (
            <input
              className={fieldStyles.input}
              aria-label={`${label}: value ${place + 1}`}
              placeholder="Value"
              type={isSecret(schema) ? 'password' : 'text'}
              autoComplete={isSecret(schema) ? 'new-password' : 'off'}
              spellCheck={false}
              value={row.text}
              onChange={(event) => edit(place, { ...row, text: event.target.value })}
            />
          )}
          <Button
            look="quiet"
            aria-label={`Remove ${row.name || `row ${place + 1}`}`}
            onClick={() => set(rows.filter((_, at) => at !== place))}
          >
            <Icon name="close" />
          </Button>
        </div>
      ))}
      <div>
        <Button onClick={() => change([...rows, { name: '', text: '' }], value)}>
          Add {rows.length === 0 ? '' : 'another'}
        </Button>
      </div>
    </div>
  )
}

function toRows(value: unknown, isText: boolean): Row[] {
  if (!isObject(value)) return []
  return Object.entries(value).map(([name, inner]) => ({
    name,
    text: isText && typeof inner === 'string' ? inner : writeScalar(inner),
  }))
}
