import { type ReactNode, useId } from 'react'
import styles from './choice-list.module.css'

interface Props<Value extends string> {
  legend: string
  options: readonly { value: Value; title: string; detail?: ReactNode; disabled?: boolean }[]
  value: Value
  onChange(value: Value): void
}

/** One of a few, each with a sentence that says what it means. */
export function ChoiceList<Value extends string>({ legend, options, value, onChange }: Props<Value>) {
  const name = useId()
  return (
    <fieldset className={styles.choices}>
      <legend>{legend}</legend>
      {options.map((option) => (
        <label key={option.value} className={styles.choice}>
          <input
            type="radio"
            name={name}
            checked={option.value === value}
            disabled={option.disabled}
            onChange={() => onChange(option.value)}
          />
          <span>
            <span className={styles.title}>{option.title}</span>
            {option.detail && <span className={styles.detail}>{option.detail}</span>}
          </span>
        </label>
      ))}
    </fieldset>
  )
}
