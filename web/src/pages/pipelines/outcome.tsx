/** What a change did, in words, with a way back where there is one. It stays until the next one or until it is closed. */
import { Link } from '@tanstack/react-router'
import { Button } from '../../components/button.tsx'
import type { ActionName, ActionResult } from './change-pipelines.ts'
import styles from './outcome.module.css'
import type { PipelineItem } from './queries.ts'

export interface OutcomeProps {
  action: ActionName
  items: readonly PipelineItem[]
  results: readonly ActionResult[]
  undo?: (() => void) | undefined
  onClose(): void
}

const DONE: Record<ActionName, string> = {
  run: 'Started',
  enable: 'Enabled',
  disable: 'Disabled',
  move: 'Moved',
  copy: 'Copied',
  delete: 'Deleted',
}

export function Outcome({ action, items, results, undo, onClose }: OutcomeProps) {
  const names = new Map(items.map(({ id, name }) => [id, name]))
  const refused = results.filter(({ ok }) => !ok)
  const done = results.length - refused.length
  const listed = refused.length > 0 ? refused : action === 'run' || action === 'copy' ? results : []
  return (
    <section className={styles.outcome} role="status">
      <div className={styles.line}>
        <p>{sayOutcome(DONE[action], done, results.length, names.get(results[0]?.id ?? ''))}</p>
        {undo && done > 0 && <Button onClick={undo}>Undo</Button>}
        <Button look="quiet" onClick={onClose}>
          Close
        </Button>
      </div>
      {listed.length > 0 && results.length + refused.length > 1 && (
        <ul>
          {listed.map(({ id, ok, detail }) => (
            <li key={id}>
              <Link to="/pipelines/$id" params={{ id }}>
                {names.get(id) ?? id}
              </Link>{' '}
              <span className={ok ? 'soft' : styles.refused}>{sayDetail(detail)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function sayOutcome(verb: string, done: number, all: number, name: string | undefined): string {
  if (all === 1) return done === 1 ? `${verb} ${name}.` : `${name} was refused.`
  return done === all ? `${verb} ${all} pipelines.` : `${verb} ${done} of ${all} pipelines. The others were refused:`
}

const sayDetail = (detail: string): string => detail.replace(/ run [0-9a-f-]{36}$/, ' a run')
