/** Chooses where a pipeline reads from or writes to: a saved connection, or a connector out of the catalogue. */
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Connector } from '../../api/queries.ts'
import { Field } from '../../components/field.tsx'
import type { Known } from './connectors.ts'
import type { Side } from './draft.ts'
import styles from './endpoint-section.module.css'
import type { Fields } from './fields.ts'

interface Props {
  side: Side
  known: Known
  onPick(endpoint: Fields): void
}

interface Option {
  key: string
  title: string
  detail: string
  endpoint: Fields
  /** Written by this organization. */
  own?: boolean
}

function toOption(connector: Connector): Option {
  const { name, display_name, description } = connector
  const language = 'language' in connector ? connector.language : null
  const what = language && (language === 'python' ? 'Python source' : 'Manifest')
  return {
    key: name,
    title: display_name,
    detail: [what, description].filter(Boolean).join(' · '),
    endpoint: { name },
    own: language !== null,
  }
}

export function EndpointPicker({ side, known, onPick }: Props) {
  const [wanted, setWanted] = useState('')
  const matches = ({ title, detail }: Option) =>
    `${title} ${detail}`.toLowerCase().includes(wanted.trim().toLowerCase())
  const displayNames = new Map(known.catalogue[side].map(({ name, display_name }) => [name, display_name]))
  const saved = known.saved[side].map(
    ({ id, name, connector_name, description }): Option => ({
      key: id,
      title: name,
      detail: [displayNames.get(connector_name) ?? connector_name, description].filter(Boolean).join(' · '),
      endpoint: { saved_connector_id: id },
    }),
  )
  const all = known.catalogue[side].map(toOption)
  const foundSaved = saved.filter(matches)
  const found = all.filter(matches)
  const own = found.filter(({ own }) => own)
  const builtIn = found.filter(({ own }) => !own)
  return (
    <>
      <Field
        label={side === 'source' ? 'Find a source' : 'Find a destination'}
        type="search"
        className={styles.find!}
        value={wanted}
        onChange={(event) => setWanted(event.target.value)}
      />
      {foundSaved.length > 0 && <Options title="Saved connections" options={foundSaved} onPick={onPick} />}
      {own.length > 0 && <Options title="Your own sources" options={own} onPick={onPick} />}
      {builtIn.length > 0 && (
        <Options title={side === 'source' ? 'New: read from' : 'New: write to'} options={builtIn} onPick={onPick} />
      )}
      {found.length + foundSaved.length === 0 && <p className="faint">Nothing matches.</p>}
      {side === 'source' && (
        <p className="soft">
          None of these? <Link to="/sources/new">Write a source</Link> in Python, or describe an API in YAML.
        </p>
      )}
    </>
  )
}

function Options({ title, options, onPick }: { title: string; options: Option[]; onPick(endpoint: Fields): void }) {
  return (
    <div>
      <h3 className={styles.group}>{title}</h3>
      <ul className={styles.options}>
        {options.map((option) => (
          <li key={option.key}>
            <button type="button" className={styles.option} onClick={() => onPick(option.endpoint)}>
              <span className={styles.optionTitle}>{option.title}</span>
              {option.detail && <span className={styles.optionDetail}>{option.detail}</span>}
            </button>
          </li>
        ))}
      </ul>
    </div>
  )
}
