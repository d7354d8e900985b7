import { useId, useState } from 'react'
import { Field } from '../../components/field.tsx'
import { Count } from '../../components/quantities.tsx'
import type { StreamDescription } from './queries.ts'
import styles from './streams-section.module.css'

interface Props {
  names: string[]
  descriptions: Map<string, StreamDescription>
  chosen: string[]
  onChoose(names: string[]): void
  /** A pipeline that exists has one stream. */
  single: boolean
}

/** Enough to scroll through; beyond it searching is faster. */
const SHOWN = 200

export function StreamList({ names, descriptions, chosen, onChoose, single }: Props) {
  const [wanted, setWanted] = useState('')
  const group = useId()
  const found = names.filter((name) => name.toLowerCase().includes(wanted.trim().toLowerCase()))
  const shown = found.slice(0, SHOWN)
  const all = found.length > 0 && found.every((name) => chosen.includes(name))
  const toggle = (name: string, on: boolean) =>
    onChoose(single ? [name] : on ? [...chosen, name] : chosen.filter((other) => other !== name))
  return (
    <div className={styles.streams}>
      <div className={styles.bar}>
        {names.length > 8 && (
          <Field
            label="Find a stream"
            type="search"
            className={styles.find!}
            value={wanted}
            onChange={(event) => setWanted(event.target.value)}
          />
        )}
        {!single && (
          <label className={styles.all}>
            <input
              type="checkbox"
              checked={all}
              onChange={() =>
                onChoose(
                  all
                    ? chosen.filter((name) => !found.includes(name))
                    : [...new Set([...chosen, ...found])].slice(0, 500),
                )
              }
            />
            {wanted ? 'All found' : 'All'} <Count value={found.length} />
          </label>
        )}
        <span className="faint">
          {single
            ? 'One stream is read.'
            : chosen.length === 0
              ? 'Choose one, or several at once.'
              : `${chosen.length} chosen`}
        </span>
      </div>
      {found.length === 0 && <p className="faint">No stream matches.</p>}
      <ul className={styles.list}>
        {shown.map((name) => (
          <li key={name}>
            <label className={styles.stream}>
              <input
                type={single ? 'radio' : 'checkbox'}
                name={group}
                checked={chosen.includes(name)}
                onChange={(event) => toggle(name, event.target.checked)}
              />
              <span className={styles.streamName}>{name}</span>
              <Facts description={descriptions.get(name)} />
            </label>
          </li>
        ))}
      </ul>
      {found.length > SHOWN && (
        <p className="faint">
          and <Count value={found.length - SHOWN} /> more. Search to narrow them down.
        </p>
      )}
    </div>
  )
}

function Facts({ description }: { description: StreamDescription | undefined }) {
  if (!description) return null
  const { columns, estimated_rows } = description
  return (
    <span className={styles.facts}>
      {columns && `${columns.length} ${columns.length === 1 ? 'column' : 'columns'}`}
      {estimated_rows !== null && (
        <>
          {columns && ' · '}about <Count value={estimated_rows} /> rows
        </>
      )}
    </span>
  )
}
