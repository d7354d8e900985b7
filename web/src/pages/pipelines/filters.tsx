/** The row above the list. All of it is in the address, so that a link shows the same rows to somebody else. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { type ConnectorKind, catalogueQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Icon } from '../../components/icon.tsx'
import { domainsQuery } from '../editor/queries.ts'
import styles from './filters.module.css'
import type { PipelineSearch } from './routes.ts'

/** Long enough that a fast typist sends one request, short enough that nobody waits for it. */
const PAUSE_MS = 50

const STATES = [
  ['failed', 'Failed'],
  ['success', 'Success'],
  ['running', 'Running'],
  ['pending', 'Pending'],
  ['cancelled', 'Cancelled'],
] as const
const SCHEDULES = [
  ['true', 'On a schedule'],
  ['false', 'By hand'],
] as const
const SWITCHES = [
  ['true', 'Enabled'],
  ['false', 'Disabled'],
] as const

type Option = readonly [value: string, words: string]

export function Filters() {
  const search = useSearch({ from: '/frame/pipelines' })
  const navigate = useNavigate({ from: '/pipelines' })
  const domains = useQuery(domainsQuery)
  const change = (name: keyof PipelineSearch, value: string | boolean | undefined) => {
    const { [name]: _, ...rest } = search
    void navigate({ search: value === undefined ? rest : { ...rest, [name]: value } })
  }
  const flag = (name: 'enabled' | 'scheduled') => (value: string | undefined) =>
    change(name, value === undefined ? undefined : value === 'true')
  const { sort: _, ...filters } = search
  return (
    <search className={styles.filters}>
      <Find />
      <Filter
        label="State"
        any="Any state"
        value={search.status}
        options={STATES}
        onChange={(v) => change('status', v)}
      />
      <Filter
        label="Domain"
        any="Any domain"
        value={search.domain_id}
        options={(domains.data ?? []).map(({ id, name }) => [id, name])}
        onChange={(value) => change('domain_id', value)}
      />
      <ConnectorFilter kind="source" value={search.source} onChange={(value) => change('source', value)} />
      <ConnectorFilter
        kind="destination"
        value={search.destination}
        onChange={(value) => change('destination', value)}
      />
      <Filter
        label="Schedule"
        any="Any schedule"
        value={search.scheduled === undefined ? undefined : String(search.scheduled)}
        options={SCHEDULES}
        onChange={flag('scheduled')}
      />
      <Filter
        label="Enabled"
        any="Enabled or not"
        value={search.enabled === undefined ? undefined : String(search.enabled)}
        options={SWITCHES}
        onChange={flag('enabled')}
      />
      {Object.keys(filters).length > 0 && (
        <Button look="quiet" onClick={() => navigate({ search: search.sort ? { sort: search.sort } : {} })}>
          Clear
        </Button>
      )}
    </search>
  )
}

/** The field follows every key; the address, and with it the request, when typing pauses. */
function Find() {
  const search = useSearch({ from: '/frame/pipelines' })
  const navigate = useNavigate({ from: '/pipelines' })
  const wanted = search.q ?? ''
  const [typed, setTyped] = useState(wanted)
  const sent = useRef(wanted)
  useEffect(() => {
    // Another way to change the address: back, a link, Clear.
    if (wanted !== sent.current) setTyped(wanted)
    sent.current = wanted
  }, [wanted])
  useEffect(() => {
    if (typed === sent.current) return
    const timer = setTimeout(() => {
      sent.current = typed
      void navigate({ search: ({ q: _, ...rest }) => (typed ? { ...rest, q: typed } : rest), replace: true })
    }, PAUSE_MS)
    return () => clearTimeout(timer)
  }, [typed, navigate])
  return (
    <label className={styles.find}>
      <Icon name="search" />
      <span className="visually-hidden">Find by name</span>
      <input
        type="search"
        placeholder="Find by name"
        maxLength={200}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
    </label>
  )
}

interface FilterProps {
  label: string
  /** What it says while nothing is chosen. */
  any: string
  value: string | undefined
  options: readonly Option[]
  onChange(value: string | undefined): void
}

function Filter({ label, any, value, options, onChange }: FilterProps) {
  const known = value === undefined || options.some(([option]) => option === value)
  return (
    <label>
      <span className="visually-hidden">{label}</span>
      <select
        className={value === undefined ? undefined : styles.chosen}
        value={value ?? ''}
        onChange={(event) => onChange(event.target.value || undefined)}
      >
        <option value="">{any}</option>
        {!known && <option value={value}>{value}</option>}
        {options.map(([option, words]) => (
          <option key={option} value={option}>
            {words}
          </option>
        ))}
      </select>
    </label>
  )
}

function ConnectorFilter({ kind, value, onChange }: { kind: ConnectorKind } & Pick<FilterProps, 'value' | 'onChange'>) {
  const catalogue = useQuery(catalogueQuery(kind))
  return (
    <Filter
      label={kind === 'source' ? 'Source' : 'Destination'}
      any={`Any ${kind}`}
      value={value}
      options={(catalogue.data ?? []).map(({ name, display_name }) => [name, display_name])}
      onChange={onChange}
    />
  )
}
