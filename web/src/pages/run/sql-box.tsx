/** A query over the output. Import it lazily: it brings the code editor. */
import { Prec } from '@codemirror/state'
import { keymap } from '@codemirror/view'
import { useMemo, useRef, useState } from 'react'
import { Button } from '../../components/button.tsx'
import CodeEditor from '../../components/code-editor/code-editor.tsx'
import styles from './output-tab.module.css'

interface Props {
  /** The query that was run; undefined if none was. */
  sql: string | undefined
  busy: boolean
  onRun(sql: string): void
  /** Back to the first rows. */
  onReset(): void
}

const FIRST = 'SELECT * FROM output LIMIT 100'

export default function SqlBox({ sql, busy, onRun, onReset }: Props) {
  const [text, setText] = useState(sql ?? FIRST)
  const run = useRef(() => {})
  run.current = () => {
    if (text.trim() !== '' && !busy) onRun(text.trim())
  }
  const keys = useMemo(
    () =>
      Prec.highest(
        keymap.of([
          {
            key: 'Mod-Enter',
            run: () => {
              run.current()
              return true
            },
          },
        ]),
      ),
    [],
  )
  return (
    <div className={styles.sql}>
      <div className={styles.editor}>
        <CodeEditor
          language="sql"
          label="SQL query over the table output"
          value={text}
          onChange={setText}
          extensions={keys}
        />
      </div>
      <div className={styles.row}>
        <Button look="primary" busy={busy} disabled={text.trim() === ''} onClick={() => run.current()}>
          Run query
        </Button>
        <span className="faint">
          The table is <code>output</code>. Ctrl or ⌘ Enter runs.
        </span>
        {sql !== undefined && (
          <Button look="quiet" onClick={onReset}>
            Show the first rows
          </Button>
        )}
      </div>
    </div>
  )
}
