import { optionsOf, type Schema } from './schema.ts'
import styles from './schema-form.module.css'

interface Props {
  schema: Schema
  value: unknown
  onChange(value: unknown): void
}

/** Any number of given values, in the order in which they are offered. */
export function Many({ schema, value, onChange }: Props) {
  const options = optionsOf(schema.items!)!
  const preset: unknown[] = Array.isArray(schema.default) ? schema.default : []
  const chosen: unknown[] = Array.isArray(value) ? value : preset
  function set(option: unknown, wanted: boolean) {
    onChange(
      options.map((known) => known.value).filter((known) => (known === option ? wanted : chosen.includes(known))),
    )
  }
  return (
    <div>
      {options.map((option) => (
        <label key={option.title} className={styles.check}>
          <input
            type="checkbox"
            checked={chosen.includes(option.value)}
            onChange={(event) => set(option.value, event.target.checked)}
          />
          {option.title}
        </label>
      ))}
    </div>
  )
}
