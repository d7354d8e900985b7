/** When it runs, in words or as cron, and what it is called. */
import { useQuery } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { useMay } from '../../api/person.ts'
import fieldStyles from '../../components/field.module.css'
import { Field } from '../../components/field.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import { type Draft, withPattern } from './draft.ts'
import type { Editor } from './editor.ts'
import { domainsQuery, nextTimesQuery } from './queries.ts'
import styles from './schedule-section.module.css'
import { EVERY, type Kind, pad, type Regular, readCron, START, toCron, WEEKDAYS } from './schedule-words.ts'
import { useSettled } from './use-settled.ts'

const KINDS: [Kind, string][] = [
  ['manual', 'By hand'],
  ['minutes', 'Every few minutes'],
  ['hour', 'Every hour'],
  ['day', 'Every day'],
  ['weekdays', 'Monday to Friday'],
  ['week', 'Every week'],
  ['month', 'Every month'],
  ['cron', 'Cron'],
]

export function ScheduleSection({ editor }: { editor: Editor }) {
  const { draft, update, problems } = editor
  const [asCron, setAsCron] = useState(false)
  const regular = draft.schedule ? readCron(draft.schedule) : null
  const kind: Kind = !draft.schedule && !asCron ? 'manual' : asCron || !regular ? 'cron' : regular.kind
  const id = useId()

  function choose(next: Kind) {
    setAsCron(next === 'cron')
    update((now) => {
      if (next === 'manual') return { ...now, schedule: null }
      const schedule = next === 'cron' ? (now.schedule ?? toCron(START)) : toCron({ ...(regular ?? START), kind: next })
      return { ...now, schedule, timezone: now.schedule ? now.timezone : (now.timezone ?? ownZone()) }
    })
  }
  const setRegular = (change: Partial<Regular>) =>
    update((now) => ({ ...now, schedule: toCron({ ...(regular ?? START), ...change }) }))
  return (
    <>
      <div className={styles.row}>
        <label className={fieldStyles.field} htmlFor={`${id}-kind`}>
          Runs
          <select
            id={`${id}-kind`}
            className={fieldStyles.input}
            value={kind}
            onChange={(event) => choose(event.target.value as Kind)}
          >
            {KINDS.map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
        {kind === 'cron' && (
          <Field
            label="Cron expression"
            hint="Minute, hour, day, month, weekday"
            problem={problems.schedule}
            className={styles.cron!}
            spellCheck={false}
            autoComplete="off"
            value={draft.schedule ?? ''}
            onChange={(event) => update((now) => ({ ...now, schedule: event.target.value }))}
          />
        )}
        {regular && kind === regular.kind && <Details regular={regular} onChange={setRegular} />}
        {kind !== 'manual' && <Zone editor={editor} />}
      </div>
      {draft.schedule && <NextTimes schedule={draft.schedule} timezone={draft.timezone} />}
      <Naming editor={editor} />
    </>
  )
}

function Details({ regular, onChange }: { regular: Regular; onChange(change: Partial<Regular>): void }) {
  const { kind, every, hour, minute, weekday, day } = regular
  return (
    <>
      {kind === 'minutes' && (
        <label className={fieldStyles.field}>
          Minutes between
          <select
            className={fieldStyles.input}
            value={every}
            onChange={(event) => onChange({ every: Number(event.target.value) })}
          >
            {EVERY.map((number) => (
              <option key={number}>{number}</option>
            ))}
          </select>
        </label>
      )}
      {kind === 'hour' && (
        <Field
          label="Minutes past the hour"
          type="number"
          min={0}
          max={59}
          value={minute}
          onChange={(event) => onChange({ minute: within(event.target.valueAsNumber, 0, 59) })}
        />
      )}
      {kind === 'week' && (
        <label className={fieldStyles.field}>
          On
          <select
            className={fieldStyles.input}
            value={weekday}
            onChange={(event) => onChange({ weekday: Number(event.target.value) })}
          >
            {[1, 2, 3, 4, 5, 6, 0].map((number) => (
              <option key={number} value={number}>
                {WEEKDAYS[number]}
              </option>
            ))}
          </select>
        </label>
      )}
      {kind === 'month' && (
        <Field
          label="On day"
          type="number"
          min={1}
          max={31}
          value={day}
          onChange={(event) => onChange({ day: within(event.target.valueAsNumber, 1, 31) })}
        />
      )}
      {kind !== 'minutes' && kind !== 'hour' && (
        <Field
          label="At"
          type="time"
          required
          value={`${pad(hour)}:${pad(minute)}`}
          onChange={(event) => {
            const [hours, minutes] = event.target.value.split(':').map(Number)
            if (hours !== undefined && minutes !== undefined) onChange({ hour: hours, minute: minutes })
          }}
        />
      )}
    </>
  )
}

const within = (number: number, least: number, most: number): number =>
  Number.isFinite(number) ? Math.min(most, Math.max(least, Math.trunc(number))) : least

function ownZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC'
}

function Zone({ editor }: { editor: Editor }) {
  const { draft, update, problems } = editor
  const id = useId()
  const zones = [...new Set(['UTC', ownZone(), draft.timezone ?? 'UTC', ...Intl.supportedValuesOf('timeZone')])]
  return (
    <div className={fieldStyles.field}>
      <label htmlFor={id}>Time zone</label>
      <select
        id={id}
        className={fieldStyles.input}
        // Null and UTC are the same; a stored null stays until another zone is chosen.
        value={draft.timezone ?? 'UTC'}
        onChange={(event) => update((now) => ({ ...now, timezone: event.target.value }))}
      >
        {zones.map((zone) => (
          <option key={zone}>{zone}</option>
        ))}
      </select>
      {problems.timezone && <p className={fieldStyles.problem}>{problems.timezone}</p>}
    </div>
  )
}

function NextTimes({ schedule, timezone }: { schedule: string; timezone: string | null }) {
  const settled = useSettled(schedule, 250)
  const next = useQuery({ ...nextTimesQuery(settled, timezone), enabled: settled.trim() !== '' })
  if (next.error) return <ErrorNotice error={next.error} />
  const zone = timezone ?? 'UTC'
  const format = new Intl.DateTimeFormat(undefined, {
    weekday: 'long',
    day: 'numeric',
    month: 'long',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
    timeZone: zone,
  })
  return (
    <div className={styles.next}>
      <h3 className="soft">Next runs, in {zone}</h3>
      <ol aria-busy={next.isFetching}>
        {(next.data?.next_times ?? Array.from({ length: 5 }, () => null)).map((at, index) => (
          <li key={at ?? index}>
            {at ? (
              <>
                <span title={`${at.replace('T', ' ').replace(/(\.000)?Z$/, '')} UTC`}>
                  {format.format(new Date(at))}
                </span>{' '}
                {index === 0 && (
                  <span className="faint">
                    <Time at={at} />
                  </span>
                )}
              </>
            ) : (
              '\u00a0'
            )}
          </li>
        ))}
      </ol>
    </div>
  )
}

function Naming({ editor }: { editor: Editor }) {
  const { draft, update, problems, suggestedName } = editor
  const set = (change: Partial<Draft>) => update((now) => ({ ...now, ...change }))
  return (
    <>
      {draft.many ? (
        <Field
          label="Names of the pipelines"
          hint="{source} and {stream} stand for their names"
          maxLength={200}
          placeholder="{source} {stream}"
          problem={problems.name_pattern}
          className={styles.name!}
          value={draft.many.name_pattern ?? ''}
          onChange={(event) => set({ many: withPattern(draft.many!, 'name_pattern', event.target.value) })}
        />
      ) : (
        <Field
          label="Name"
          required={suggestedName === ''}
          maxLength={200}
          placeholder={suggestedName}
          problem={problems.name}
          className={styles.name!}
          value={draft.name}
          onChange={(event) => set({ name: event.target.value })}
        />
      )}
      <DomainField editor={editor} />
      <label className={styles.enabled}>
        <input type="checkbox" checked={draft.enabled} onChange={(event) => set({ enabled: event.target.checked })} />
        Enabled
        <span className="faint">A disabled pipeline ignores its schedule; it can still be run by hand.</span>
      </label>
    </>
  )
}

function DomainField({ editor }: { editor: Editor }) {
  const { draft, update, problems } = editor
  const domains = useQuery(domainsQuery)
  const anywhere = useMay('pipelines:write', null)
  const id = useId()
  const listed = domains.data ?? []
  if (listed.length === 0 && draft.domain_id === null && anywhere) return null
  const unknown = draft.domain_id !== null && !listed.some((domain) => domain.id === draft.domain_id)
  return (
    <div className={`${fieldStyles.field} ${styles.name}`}>
      <label htmlFor={id}>Domain</label>
      <select
        id={id}
        className={fieldStyles.input}
        value={draft.domain_id ?? ''}
        onChange={(event) => update((now) => ({ ...now, domain_id: event.target.value || null }))}
      >
        {anywhere ? <option value="">None</option> : draft.domain_id === null && <option value="">Choose…</option>}
        {unknown && <option value={draft.domain_id!}>{domains.isPending ? '…' : draft.domain_id}</option>}
        {listed.map((domain) => (
          <DomainOption key={domain.id} domain={domain} />
        ))}
      </select>
      {problems.domain_id && <p className={fieldStyles.problem}>{problems.domain_id}</p>}
    </div>
  )
}

function DomainOption({ domain }: { domain: { id: string; name: string } }) {
  const may = useMay('pipelines:write', domain.id)
  return (
    <option value={domain.id} disabled={!may}>
      {domain.name}
    </option>
  )
}
