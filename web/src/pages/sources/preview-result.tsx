/** What a preview read: a table with types or JSON, the reason if it failed, and what was logged. */
import { useState } from 'react'
import { isNumber, sayValue } from '../../api/exact-json.ts'
import { Button } from '../../components/button.tsx'
import { Empty, ErrorNotice } from '../../components/notice.tsx'
import { ScrollRegion } from '../../components/scroll-region.tsx'
import { LogLines } from './log-lines.tsx'
import type { Preview, PreviewColumn } from './preview.ts'
import { lastLineOf } from './traceback.ts'
import type { PreviewState } from './use-preview.ts'
import styles from './workspace.module.css'

interface Props {
  state: PreviewState
  hint: string
  onJump(line: number): void
}

export function PreviewResult({ state: { preview, error, since }, hint, onJump }: Props) {
  const [face, setFace] = useState<'table' | 'json'>('table')
  if (error) return <ErrorNotice error={error} />
  if (preview === null)
    return since === null ? <Empty title="Nothing read yet">{hint}</Empty> : <div className={styles.waiting} />
  const { rows, columns, stream, elapsedMs } = preview
  return (
    <div className={styles.result} aria-busy={since !== null || undefined}>
      {preview.error && <Failure preview={preview} onJump={onJump} />}
      {preview.problems.map((problem) => (
        <p key={problem} className={styles.warning}>
          {problem}
        </p>
      ))}
      <div className={styles.resultHead}>
        <p role="status" className="soft">
          <span className="number">{rows.length}</span> {rows.length === 1 ? 'record' : 'records'} of {stream}
          {preview.error && ' before it failed'} in <span className="number">{sayMs(elapsedMs)}</span>
        </p>
        {rows.length > 0 && (
          <fieldset className={styles.faces}>
            <legend className="visually-hidden">Show as</legend>
            {(['table', 'json'] as const).map((name) => (
              <Button key={name} look="quiet" aria-pressed={face === name} onClick={() => setFace(name)}>
                {name === 'table' ? 'Table' : 'JSON'}
              </Button>
            ))}
          </fieldset>
        )}
      </div>
      {rows.length > 0 && (face === 'table' ? <Rows rows={rows} columns={columns} /> : <JsonText rows={rows} />)}
      {rows.length === 0 && !preview.error && <p className="soft">The stream has no records with these settings.</p>}
    </div>
  )
}

export function PreviewLog({ state, onJump }: Pick<Props, 'state' | 'onJump'>) {
  const lines = state.preview?.logs ?? []
  if (lines.length === 0) return null
  return (
    <section className={styles.logs} aria-labelledby="preview-log">
      <h2 id="preview-log" className={styles.small}>
        Log
      </h2>
      <LogLines lines={lines} onJump={onJump} />
    </section>
  )
}

function Failure({ preview, onJump }: { preview: Preview; onJump(line: number): void }) {
  const line = lastLineOf(preview.logs)
  return (
    <div role="alert" className={styles.failure}>
      <p>{preview.error}</p>
      {line !== null && (
        <Button onClick={() => onJump(line)}>
          Go to line <span className="number">{line}</span>
        </Button>
      )}
    </div>
  )
}

function Rows({ rows, columns }: { rows: readonly Record<string, unknown>[]; columns: readonly PreviewColumn[] }) {
  return (
    <ScrollRegion className={styles.rows} aria-label="Records">
      <table>
        <thead>
          <tr>
            <th className={styles.number}>
              <span className="visually-hidden">Number</span>
            </th>
            {columns.map(({ name, type }) => (
              <th key={name}>
                {name} <span className={styles.type}>{type}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              <td className={styles.number}>{index + 1}</td>
              {columns.map(({ name }) => (
                <Cell key={name} value={row[name]} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollRegion>
  )
}

function Cell({ value }: { value: unknown }) {
  if (value === null || value === undefined) return <td className="faint">{value === null ? 'null' : ''}</td>
  const text = sayValue(value)
  return (
    <td
      className={isNumber(value) ? styles.figure : undefined}
      title={text.length > 40 ? text.slice(0, 2000) : undefined}
    >
      {text.slice(0, 500)}
    </td>
  )
}

function JsonText({ rows }: { rows: readonly Record<string, unknown>[] }) {
  return (
    <ScrollRegion className={styles.json} aria-label="Records as JSON">
      {rows.map((row) => JSON.stringify(row, null, 2)).join('\n')}
    </ScrollRegion>
  )
}

function sayMs(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`
}
