import { useQuery } from '@tanstack/react-query'
import { ApiError, type Schemas } from '../../api/client.ts'
import { CopyButton } from '../../components/copy-button.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import { ScrollRegion } from '../../components/scroll-region.tsx'
import styles from './config-tab.module.css'
import { runConfigQuery } from './queries.ts'
import { Trigger } from './trigger.tsx'

/** Versions and configuration that the run used, which may since have been changed. */
export function ConfigTab({ run }: { run: Schemas['Run'] }) {
  const used = useQuery(runConfigQuery(run.id))
  const missing = used.error instanceof ApiError && used.error.status === 404
  const text = used.data?.config ? JSON.stringify(used.data.config, null, 2) : null
  return (
    <div className={styles.tab}>
      <dl className={styles.facts}>
        <div>
          <dt>Run</dt>
          <dd>
            <code>{run.id}</code>
          </dd>
        </div>
        <div>
          <dt>Triggered</dt>
          <dd>
            <Trigger run={run} />, <Time at={run.created_at} />
          </dd>
        </div>
        {run.source_version !== null && (
          <div>
            <dt>Version of the source</dt>
            <dd>{run.source_version}</dd>
          </div>
        )}
        <div>
          <dt>Attempts</dt>
          <dd>{run.attempt}</dd>
        </div>
      </dl>
      {used.isPending && <Skeleton rows={8} height={20} />}
      {missing ? (
        <Empty title="The configuration of this run is not kept">
          Only the last runs of a pipeline that was changed very often keep theirs.
        </Empty>
      ) : (
        <ErrorNotice error={used.error} onRetry={used.refetch} />
      )}
      {used.data?.problem && <p className="soft">{used.data.problem}</p>}
      {text !== null && (
        <div className={styles.config}>
          <div className={styles.head}>
            <h2>Configuration</h2>
            <CopyButton look="quiet" text={text} label="Copy JSON" />
          </div>
          <ScrollRegion aria-label="Configuration as JSON" className={styles.text!}>
            <pre>{text}</pre>
          </ScrollRegion>
          <p className="faint">As it was when the run was triggered. Secrets are masked.</p>
        </div>
      )}
    </div>
  )
}
