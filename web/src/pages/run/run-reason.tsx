import { Link } from '@tanstack/react-router'
import type { Schemas } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { reasonOf, stepsFor } from './failure.ts'
import styles from './run-page.module.css'

interface Props {
  run: Schemas['Run']
  /** Of the pipeline as it is now. */
  config: object | undefined
  domainId: string | null
}

/** Why it failed, before everything else, and where to mend it. */
export function RunReason({ run, config, domainId }: Props) {
  const mayFix = useMay('pipelines:write', domainId)
  if (run.error === null) return null
  const { label, sentence } = reasonOf(run.error)
  const waits = run.status === 'pending'
  const steps =
    run.status === 'failed' && mayFix
      ? stepsFor(run.error, {
          pipeline_id: run.pipeline_id,
          saved_source_id: savedIn(config, 'source'),
          saved_destination_id: savedIn(config, 'destination'),
        })
      : []
  return (
    <div role="alert" className={`${styles.reason} ${waits ? styles.waits : ''}`}>
      <p>
        {waits && 'It will be tried again. The last attempt failed: '}
        {label !== null && <strong>{label}: </strong>}
        {sentence}
      </p>
      {steps.length > 0 && (
        <p className={styles.steps}>
          {steps.map(({ words, link }) => (
            <Link key={words} {...link}>
              {words}
            </Link>
          ))}
        </p>
      )}
    </div>
  )
}

function savedIn(config: object | undefined, side: 'source' | 'destination'): string | null {
  const part: unknown = (config as Record<string, unknown> | undefined)?.[side]
  if (typeof part !== 'object' || part === null || !('saved_connector_id' in part)) return null
  return typeof part.saved_connector_id === 'string' ? part.saved_connector_id : null
}
