/** The other face of the form: what is sent to the API, as JSON. Import it lazily, for it brings the code editor. */
import { jsonLanguage } from '@codemirror/lang-json'
import { type Diagnostic, setDiagnostics } from '@codemirror/lint'
import type { EditorView } from '@codemirror/view'
import { useEffect, useMemo, useRef, useState } from 'react'
import CodeEditor from '../../components/code-editor/code-editor.tsx'
import { schemasOf } from './connectors.ts'
import { type Draft, readBody, toBody } from './draft.ts'
import type { Editor } from './editor.ts'
import { type Fields, isSame, parsePath } from './fields.ts'
import { locate } from './json-places.ts'
import styles from './json-view.module.css'
import { maskSecrets, restoreMasks, secretPaths } from './secrets.ts'

interface Props {
  editor: Editor
  /** Why the text is not a pipeline, or null. */
  onFault(fault: string | null): void
}

export default function JsonView({ editor, onFault }: Props) {
  const { draft, replace, known, problems, suggestedName } = editor
  const shown = useMemo(() => {
    const config = maskSecrets(draft.config, secretPaths(schemasOf(known, draft.config)))
    return JSON.stringify(toBody({ ...draft, config }, suggestedName), null, 2)
  }, [draft, known, suggestedName])
  const [text, setText] = useState(shown)
  const [fault, setFault] = useState<string | null>(null)
  const view = useRef<EditorView | null>(null)
  const own = useRef<Draft>(draft)
  // A change from elsewhere (a discarded draft) replaces the text; one of our own must not reformat it while it is typed.
  useEffect(() => {
    if (own.current !== draft && !isSame(own.current, draft)) setText(shown)
    own.current = draft
  }, [draft, shown])
  useEffect(() => {
    onFault(fault && `JSON: ${fault}`)
    return () => onFault(null)
  }, [fault, onFault])
  useMarks(view, text, fault === null ? problems : {})

  function change(typed: string) {
    setText(typed)
    try {
      const body = JSON.parse(typed)
      const written = readBody(body)
      const next = { ...written, config: restoreMasks(written.config, draft.config) as Fields }
      if (next.name === suggestedName && draft.name === '') next.name = ''
      setFault(null)
      own.current = next
      if (!isSame(next, draft)) replace(next)
    } catch (error) {
      setFault((error as Error).message)
    }
  }
  return (
    <div className={styles.json}>
      <div className={styles.field}>
        <CodeEditor value={text} onChange={change} language="json" label="Pipeline as JSON" view={view} />
      </div>
      {fault ? (
        <p role="status" className={styles.fault}>
          {fault}
        </p>
      ) : (
        <p className="faint">A secret shown as ******** stays as it is. Escape, then Tab, leaves the field.</p>
      )}
    </div>
  )
}

/** Underlines what the server refused, where it stands in the text. */
function useMarks(view: React.RefObject<EditorView | null>, text: string, problems: Record<string, string>): void {
  useEffect(() => {
    const editor = view.current
    if (!editor) return
    const tree = jsonLanguage.parser.parse(text)
    const marks = Object.entries(problems).map(([path, message]): Diagnostic => {
      const { from, to } = locate(tree, text, parsePath(path))
      return { from, to: Math.min(to, editor.state.doc.length), severity: 'error', message: `${path}: ${message}` }
    })
    editor.dispatch(
      setDiagnostics(
        editor.state,
        marks.filter(({ from, to }) => from <= to),
      ),
    )
  }, [view, text, problems])
}
