import fieldStyles from '../../components/field.module.css'
import styles from './settings.module.css'

interface Props<Name extends string> {
  legend: string
  words: Record<Name, string>
  all: readonly Name[]
  chosen: Name[]
  problem?: string | undefined
  onChange(chosen: Name[]): void
}

/** Some of a few. */
export function Checks<Name extends string>({ legend, words, all, chosen, problem, onChange }: Props<Name>) {
  return (
    <fieldset className={styles.checks}>
      <legend className={styles.legend}>{legend}</legend>
      {all.map((name) => (
        <label key={name} className={styles.check} title={name}>
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            onChange={(event) =>
              onChange(all.filter((other) => (other === name ? event.target.checked : chosen.includes(other))))
            }
          />
          {words[name]}
        </label>
      ))}
      {problem && <p className={fieldStyles.problem}>{problem}</p>}
    </fieldset>
  )
}
