import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { answer, api, type Schemas } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { saveFile } from '../../api/save-file.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Count } from '../../components/quantities.tsx'
import outputStyles from './output-tab.module.css'
import styles from './quarantine-tab.module.css'
import { quarantineQuery, readQuarantine } from './queries.ts'

/** The records that the destination refused, each with its reason. */
export function QuarantineTab({ run, domainId }: { run: Schemas['Run']; domainId: string | null }) {
  const refused = useQuery(quarantineQuery(run.id))
  const download = useMutation({
    mutationFn: () => readQuarantine(run.id),
    onSuccess: (file) => saveFile(file, `run-${run.id}-quarantine.jsonl`),
  })
  return (
    <div className={outputStyles.tab}>
      <div className={outputStyles.row}>
        <p className="soft">
          The destination refused <Count value={run.records_quarantined} />{' '}
          {run.records_quarantined === 1 ? 'record' : 'records'}. All others were loaded.
        </p>
        <Resend run={run} domainId={domainId} />
        <Button busy={download.isPending} onClick={() => download.mutate()}>
          Download quarantine
        </Button>
      </div>
      <ErrorNotice error={refused.error ?? download.error} onRetry={refused.refetch} />
      {refused.isPending && <Skeleton rows={6} height={44} />}
      <ol className={styles.list}>
        {refused.data?.map(({ record, reason }, index) => (
          <li key={index}>
            <p className={styles.reason}>{reason}</p>
            <code className={styles.record}>{JSON.stringify(record)}</code>
          </li>
        ))}
      </ol>
      {refused.data && refused.data.length < run.records_quarantined && (
        <p className="faint">The first {refused.data.length} are shown; the download has all.</p>
      )}
    </div>
  )
}

function Resend({ run, domainId }: { run: Schemas['Run']; domainId: string | null }) {
  const may = useMay('pipelines:run', domainId)
  const [asking, setAsking] = useState(false)
  const navigate = useNavigate()
  const resend = useMutation({
    mutationFn: () =>
      answer(api.POST('/api/pipelines/runs/{run_id}/quarantine/resend', { params: { path: { run_id: run.id } } })),
    onSuccess: ({ id }) => navigate({ to: '/runs/$id', params: { id } }),
  })
  if (!may) return null
  return (
    <>
      <Button look="primary" onClick={() => setAsking(true)}>
        Send again
      </Button>
      {asking && (
        <Confirm
          title="Send the refused records again"
          action="Send again"
          busy={resend.isPending}
          error={resend.error}
          onConfirm={() => resend.mutate()}
          onClose={() => setAsking(false)}
        >
          <p>
            A new run loads these records into the destination as they are here. Sending them twice loads them twice,
            unless the pipeline upserts.
          </p>
        </Confirm>
      )}
    </>
  )
}
