/** What a first run would do, without doing it: its first records, the columns they go to, what changes there. */
import { useMutation } from '@tanstack/react-query'
import { answer, api, type Schemas } from '../../api/client.ts'
import { isNumber, parseExact, sayValue } from '../../api/exact-json.ts'
import { problemsOf } from '../../api/problems.ts'
import { Button } from '../../components/button.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { ScrollRegion } from '../../components/scroll-region.tsx'
import table from '../../components/table.module.css'
import type { Editor } from './editor.ts'
import styles from './review-section.module.css'

type Result = Schemas['PipelinePreview']

export function Preview({ editor }: { editor: Editor }) {
  const { draft, pipelineId, setProblems } = editor
  const key = JSON.stringify(draft.config)
  const preview = useMutation({
    mutationFn: async (config: string) => {
      const body = { config: JSON.parse(config), ...(pipelineId !== null && { pipeline_id: pipelineId }) }
      const text = await answer(api.POST('/api/pipelines/preview', { body, parseAs: 'text' }))
      return { config, result: parseExact(text) as Result }
    },
    onError: (error) => setProblems(problemsOf(error, '').byPath),
  })
  const stale = preview.data !== undefined && preview.data.config !== key
  return (
    <div className={styles.part}>
      <div className={styles.actions}>
        <Button busy={preview.isPending} onClick={() => preview.mutate(key)}>
          {preview.isPending ? 'Reading…' : preview.data ? 'Preview again' : 'Preview'}
        </Button>
        <span className="faint">
          {stale
            ? 'The settings have changed since this preview.'
            : 'Reads the first records and looks at the destination. Nothing is written.'}
        </span>
      </div>
      <ErrorNotice error={preview.error} />
      {preview.isPending && !preview.data && <Skeleton rows={6} height={28} />}
      {preview.data && <PreviewResult result={preview.data.result} />}
    </div>
  )
}

function PreviewResult({ result }: { result: Result }) {
  const { success, error, records, columns, changes, problems } = result
  if (!success) return <p className={styles.refused}>✕ {error}</p>
  return (
    <>
      <Sentences title="Problems" lines={problems} className={styles.problems} mark="✕" />
      <Sentences title="In the destination, the first run" lines={changes} className={styles.effects} mark="→" />
      {records.length === 0 ? (
        <p className="soft">The source has no records now.</p>
      ) : (
        <Sample records={records} columns={columns} />
      )}
    </>
  )
}

interface SentencesProps {
  title: string
  lines: string[]
  className: string | undefined
  mark: string
}

function Sentences({ title, lines, className, mark }: SentencesProps) {
  if (lines.length === 0) return null
  return (
    <div>
      <h3>{title}</h3>
      <ul className={className}>
        {lines.map((line) => (
          <li key={line}>
            <span aria-hidden="true">{mark} </span>
            {line}
          </li>
        ))}
      </ul>
    </div>
  )
}

/** The records under the columns that they are written to, with their types there. */
function Sample({ records, columns }: Pick<Result, 'records' | 'columns'>) {
  const known = columns.map((column) => column.name)
  const others = [...new Set(records.flatMap((record) => Object.keys(record)))].filter((name) => !known.includes(name))
  const heads = [...columns, ...others.map((name) => ({ name, type: '', native_type: null }))]
  return (
    <div>
      <h3>First records</h3>
      <ScrollRegion className={styles.scroll} aria-label="First records">
        <table className={`${table.table} ${styles.sample}`}>
          <thead>
            <tr>
              {heads.map(({ name, type, native_type }) => (
                <th key={name}>
                  <code>{name}</code>
                  <span className={styles.type} title={native_type && native_type !== type ? type : undefined}>
                    {native_type ?? type}
                  </span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {records.map((record, row) => (
              <tr key={row}>
                {heads.map(({ name }) => (
                  <Cell key={name} value={(record as Record<string, unknown>)[name]} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </div>
  )
}

function Cell({ value }: { value: unknown }) {
  if (value === undefined || value === null)
    return (
      <td>
        <span className="faint">null</span>
      </td>
    )
  const text = sayValue(value)
  return (
    <td title={text.length > 40 ? text.slice(0, 2000) : undefined} className={isNumber(value) ? 'number' : undefined}>
      {text.length > 200 ? `${text.slice(0, 200)}…` : text}
    </td>
  )
}
