import { Button } from '../button.tsx'
import { isObject, kindOf, type Schema, withoutNull } from './schema.ts'
import { SchemaField } from './schema-field.tsx'
import styles from './schema-form.module.css'

interface Props {
  label: string
  path: string
  schema: Schema
  value: unknown
  onChange(value: unknown): void
  problems: Record<string, string>
}

/** Several things of one shape, each with its own form. */
export function List({ label, path, schema, value, onChange, problems }: Props) {
  const items: unknown[] = Array.isArray(value) ? value : []
  const one = singularOf(label)
  const set = (changed: unknown[]) => onChange(changed.length === 0 ? undefined : changed)
  return (
    <div className={styles.rows}>
      {items.map((item, place) => (
        <div key={place} className={styles.item}>
          <SchemaField
            name={nameOf(item) ?? `${one} ${place + 1}`}
            path={`${path}[${place}]`}
            schema={withoutNull({ ...schema.items, title: nameOf(item) ?? `${one} ${place + 1}` })}
            required
            unmarked
            value={item}
            onChange={(changed) =>
              set(items.map((old, at) => (at === place ? (changed ?? emptyOf(schema.items!)) : old)))
            }
            problems={problems}
          />
          <Button
            look="quiet"
            className={styles.remove!}
            aria-label={`Remove ${nameOf(item) ?? `${one} ${place + 1}`}`}
            onClick={() => set(items.filter((_, at) => at !== place))}
          >
            Remove
          </Button>
        </div>
      ))}
      <div>
        <Button
          disabled={items.length >= (schema.maxItems ?? Number.POSITIVE_INFINITY)}
          onClick={() => set([...items, emptyOf(schema.items!)])}
        >
          Add {one.toLowerCase()}
        </Button>
      </div>
    </div>
  )
}

function singularOf(label: string): string {
  return label.endsWith('ies') ? `${label.slice(0, -3)}y` : label.endsWith('s') ? label.slice(0, -1) : 'Entry'
}

function nameOf(item: unknown): string | null {
  if (!isObject(item)) return null
  const name = item.name ?? item.field
  return typeof name === 'string' && name !== '' ? name : null
}

/** A new item has a form at once: of the shapes that it may have, the one with settings. */
function emptyOf(schema: Schema): unknown {
  const kinds = [schema, ...(schema.anyOf ?? schema.oneOf ?? [])].map(kindOf)
  return kinds.includes('group') || kinds.includes('pairs') ? {} : ''
}
