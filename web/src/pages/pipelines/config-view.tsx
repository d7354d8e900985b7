import styles from './config-view.module.css'

/** A config as nested terms and values, for reading. */
export function ConfigView({ value }: { value: Record<string, unknown> }) {
  return (
    <dl className={styles.fields}>
      {Object.entries(value)
        .filter(([, inner]) => inner !== undefined)
        .map(([name, inner]) => (
          <div key={name} className={isGroup(inner) ? styles.group : styles.field}>
            <dt>{name.replaceAll('_', ' ')}</dt>
            <dd>{isGroup(inner) ? <ConfigView value={inner} /> : <code>{say(inner)}</code>}</dd>
          </div>
        ))}
    </dl>
  )
}

const isGroup = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0

function say(value: unknown): string {
  if (typeof value === 'string') return value
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value.join(', ')
  return JSON.stringify(value)
}
