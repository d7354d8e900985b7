/** Names of columns: typed, chosen from the known ones, or taken from what the stream offers. */
import { type KeyboardEvent, useId, useState } from 'react'
import { Button } from '../../components/button.tsx'
import fieldStyles from '../../components/field.module.css'
import formStyles from '../../components/schema-form/schema-form.module.css'
import styles from './column-input.module.css'

interface Shared {
  label: string
  hint: string
  optional: boolean
  problem: string | undefined
  columns: readonly string[]
  /** The best ones, as buttons. */
  offered: readonly string[]
}

interface OneProps extends Shared {
  value: string
  onChange(value: string): void
}

export function ColumnInput({ value, onChange, ...shared }: OneProps) {
  const id = useId()
  return (
    <Labelled {...shared} id={id} offer={(name) => onChange(name)} taken={[value]}>
      <input
        id={id}
        className={fieldStyles.input}
        list={`${id}-columns`}
        aria-describedby={`${id}-about`}
        aria-invalid={shared.problem ? true : undefined}
        spellCheck={false}
        autoComplete="off"
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    </Labelled>
  )
}

interface ManyProps extends Shared {
  value: readonly string[]
  onChange(value: string[]): void
}

export function ColumnsInput({ value, onChange, ...shared }: ManyProps) {
  const id = useId()
  const [typed, setTyped] = useState('')
  const add = (name: string) => {
    if (name.trim() !== '' && !value.includes(name.trim())) onChange([...value, name.trim()])
    setTyped('')
  }
  function press(event: KeyboardEvent) {
    if (event.key === 'Enter' || event.key === ',') {
      event.preventDefault()
      add(typed)
    } else if (event.key === 'Backspace' && typed === '' && value.length > 0) onChange(value.slice(0, -1))
  }
  return (
    <Labelled {...shared} id={id} offer={add} taken={value}>
      <div className={styles.tokens}>
        {value.map((name) => (
          <span key={name} className={styles.token}>
            <code>{name}</code>
            <button
              type="button"
              aria-label={`Remove ${name}`}
              onClick={() => onChange(value.filter((other) => other !== name))}
            >
              ×
            </button>
          </span>
        ))}
        <input
          id={id}
          list={`${id}-columns`}
          aria-describedby={`${id}-about`}
          aria-invalid={shared.problem ? true : undefined}
          placeholder={value.length === 0 ? 'Type a name, then Enter' : ''}
          spellCheck={false}
          autoComplete="off"
          value={typed}
          onChange={(event) =>
            // A choice from the list is complete; typing goes on.
            (event.nativeEvent as InputEvent).inputType === 'insertReplacementText' ||
            !('inputType' in event.nativeEvent)
              ? add(event.target.value)
              : setTyped(event.target.value)
          }
          onKeyDown={press}
          onBlur={() => add(typed)}
        />
      </div>
    </Labelled>
  )
}

interface LabelledProps extends Shared {
  id: string
  offer(name: string): void
  taken: readonly string[]
  children: React.ReactNode
}

function Labelled({ id, label, hint, optional, problem, columns, offered, offer, taken, children }: LabelledProps) {
  const open = offered.filter((name) => !taken.includes(name)).slice(0, 4)
  return (
    <div className={`${fieldStyles.field} ${styles.field}`}>
      <label htmlFor={id}>
        {label}
        {optional && <span className={formStyles.optional}> optional</span>}
      </label>
      {children}
      <datalist id={`${id}-columns`}>
        {columns
          .filter((name) => !taken.includes(name))
          .map((name) => (
            <option key={name} value={name} />
          ))}
      </datalist>
      <p id={`${id}-about`} className={problem ? fieldStyles.problem : fieldStyles.hint}>
        {problem ?? hint}
      </p>
      {open.length > 0 && (
        <div className={styles.offers}>
          <span className="faint">Offered by the stream:</span>
          {open.map((name) => (
            <Button key={name} onClick={() => offer(name)}>
              {name}
            </Button>
          ))}
        </div>
      )}
    </div>
  )
}
