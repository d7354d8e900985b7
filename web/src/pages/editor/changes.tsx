/** Before a change is saved: each field that differs, and what that means for the next run. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { answer, api, type Schemas } from '../../api/client.ts'
import { problemsOf } from '../../api/problems.ts'
import { MASK } from '../../components/schema-form/schema.ts'
import table from '../../components/table.module.css'
import { schemasOf } from './connectors.ts'
import { type Difference, findDifferences } from './difference.ts'
import { changedFields, type Draft, toBody } from './draft.ts'
import type { Editor } from './editor.ts'
import { isObject } from './fields.ts'
import styles from './review-section.module.css'
import { secretPaths } from './secrets.ts'
import { useSettled } from './use-settled.ts'

export function Changes({ editor, stored }: { editor: Editor; stored: Draft }) {
  const { draft, known } = editor
  const differences = findDifferences(toBody(stored), toBody(draft))
  if (differences.length === 0) return null
  const secrets = [stored, draft].flatMap(({ config }) =>
    secretPaths(schemasOf(known, config)).map((path) => ['config', ...path].join('.')),
  )
  const isSecret = ({ path, before, after }: Difference) =>
    before === MASK || after === MASK || secrets.some((secret) => path === secret || path.startsWith(`${secret}.`))
  return (
    <div className={styles.part}>
      <h3>What changes</h3>
      <table className={`${table.table} ${styles.changes}`}>
        <thead>
          <tr>
            <th>Field</th>
            <th>Before</th>
            <th>After</th>
          </tr>
        </thead>
        <tbody>
          {differences.map((difference) => (
            <tr key={difference.path}>
              <td>
                <code>{difference.path}</code>
              </td>
              {isSecret(difference) ? (
                <td colSpan={2} className="soft">
                  {sayChange(difference)}
                </td>
              ) : (
                <>
                  <td>
                    <Value value={difference.before} />
                  </td>
                  <td>
                    <Value value={difference.after} />
                  </td>
                </>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      <Consequences editor={editor} stored={stored} />
    </div>
  )
}

/** A secret is never shown, neither the old nor the new one. */
function sayChange({ before, after }: Difference): string {
  return before === undefined ? 'set' : after === undefined ? 'removed' : 'changed'
}

function Value({ value }: { value: unknown }) {
  if (value === undefined || value === null) return <span className="faint">none</span>
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, isObject(value) ? 2 : undefined)
  return <code className={styles.value}>{text}</code>
}

/** The server tries the change and takes it back: what it would refuse, and whether the next run starts over. */
function Consequences({ editor, stored }: { editor: Editor; stored: Draft }) {
  const { draft, pipelineId: id } = editor
  const text = useSettled(JSON.stringify(changedFields(stored, draft)), 500)
  const tried = useQuery({
    queryKey: ['pipeline', id, 'dry-run', text],
    queryFn: ({ signal }) => {
      const body: Schemas['UpdatePipeline'] = { ...JSON.parse(text), dry_run: true }
      return answer(api.PUT('/api/pipelines/{id}', { params: { path: { id: id! } }, body, signal }))
    },
    enabled: text !== '{}',
    placeholderData: keepPreviousData,
    retry: false,
    gcTime: 0,
  })
  if (tried.error) {
    const { byPath, rest } = problemsOf(tried.error, '')
    const lines = [...Object.entries(byPath).map(([path, problem]) => `${path}: ${problem}`), ...rest]
    return (
      <ul className={styles.problems} aria-label="What would be refused">
        {(lines.length === 0 ? [tried.error.message] : lines).map((line) => (
          <li key={line}>✕ {line}</li>
        ))}
      </ul>
    )
  }
  return tried.data?.notice ? <p className={styles.notice}>{tried.data.notice}</p> : null
}
