import { Link } from '@tanstack/react-router'
import { type KeyboardEvent, type MouseEvent, memo } from 'react'
import { useMay } from '../../api/person.ts'
import { Icon } from '../../components/icon.tsx'
import { Time } from '../../components/quantities.tsx'
import { Status } from '../../components/status.tsx'
import { Switch } from '../../components/switch.tsx'
import { DomainDot } from './domain-dot.tsx'
import styles from './pipeline-list.module.css'
import type { Activity, PipelineItem } from './queries.ts'
import { RunStrip } from './run-strip.tsx'
import type { EndNames } from './use-end-names.ts'

export interface RowEvents {
  onChoose(index: number, extend: boolean): void
  /** Up or down from a row, by keyboard. */
  onMove(index: number, extend: boolean): void
  onEnable(item: PipelineItem, enabled: boolean): void
  onRun(item: PipelineItem): void
}

interface Props {
  index: number
  item: PipelineItem
  activity: Activity | undefined
  color: string | null
  nameOf: EndNames
  selected: boolean
  events: RowEvents
}

/** One pipeline on one line. On a narrow screen what it moves stands below its name. */
export const PipelineRow = memo(function PipelineRow({
  index,
  item,
  activity,
  color,
  nameOf,
  selected,
  events,
}: Props) {
  const from = nameOf({ kind: 'source', savedId: item.saved_source_id, connector: item.source_name })
  const to = nameOf({ kind: 'destination', savedId: item.saved_destination_id, connector: item.destination_name })
  const mayWrite = useMay('pipelines:write', item.domain_id)
  const mayRun = useMay('pipelines:run', item.domain_id)
  function press(event: KeyboardEvent) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step === undefined) return
    event.preventDefault()
    events.onMove(index + step, event.shiftKey)
  }
  return (
    <>
      <td className={styles.check}>
        <input
          type="checkbox"
          data-row={index}
          aria-label={`Select ${item.name}`}
          checked={selected}
          onClick={(event: MouseEvent) => events.onChoose(index, event.shiftKey)}
          onChange={() => {}}
          onKeyDown={press}
        />
      </td>
      <td className={styles.state}>
        <Status status={item.last_run_status} />
      </td>
      <td className={styles.name}>
        <Link to="/pipelines/$id" params={{ id: item.id }} title={item.name}>
          {item.name}
        </Link>
      </td>
      <td className={styles.way} title={`${from} ${item.stream} → ${to}`}>
        <span className={styles.from}>{from} </span>
        <code>{item.stream}</code> → {to}
      </td>
      <td className={styles.strip}>
        <RunStrip runs={activity?.runs} />
      </td>
      <td className={styles.success}>
        <Time at={activity?.last_success_at ?? null} />
      </td>
      <td className={styles.next}>
        {item.enabled ? (
          item.schedule ? (
            <Time at={item.next_run_at} />
          ) : (
            <span className="faint">by hand</span>
          )
        ) : (
          <span className="faint">disabled</span>
        )}
      </td>
      <td className={styles.domain}>
        {item.domain_name !== null && <DomainDot name={item.domain_name} color={color} />}
      </td>
      <td className={styles.switch}>
        <Switch
          label={`Enable ${item.name}`}
          checked={item.enabled}
          disabled={!mayWrite}
          title={mayWrite ? (item.enabled ? 'Enabled' : 'Disabled') : 'Your role may not change this pipeline'}
          onChange={(enabled) => events.onEnable(item, enabled)}
        />
      </td>
      <td className={styles.run}>
        <button
          type="button"
          disabled={!mayRun}
          aria-label={`Run ${item.name} now`}
          title={mayRun ? 'Run now' : 'Your role may not run this pipeline'}
          onClick={() => events.onRun(item)}
        >
          <Icon name="runs" />
        </button>
      </td>
    </>
  )
})
