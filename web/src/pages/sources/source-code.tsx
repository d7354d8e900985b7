/** The editor of a source: marks of validation, completion for `svc`, and the keys of the page. Import it lazily. */
import { type Diagnostic, setDiagnostics } from '@codemirror/lint'
import { Prec, type Text } from '@codemirror/state'
import { EditorView, keymap, ViewPlugin } from '@codemirror/view'
import { type RefObject, useEffect, useMemo, useRef, useState } from 'react'
import CodeEditor from '../../components/code-editor/code-editor.tsx'
import type { Finding, SourceLanguage } from './authored.ts'
import { svcSupport } from './svc-completion.ts'

export interface EditorActions {
  jump(line: number, column?: number): void
}

interface Props {
  language: SourceLanguage
  value: string
  onChange(value: string): void
  readOnly: boolean
  /** Of exactly this text; null while they are not known, and the earlier ones stay. */
  findings: readonly Finding[] | null
  configFields: readonly string[]
  onPreview(): void
  onSave(): void
  actions: RefObject<EditorActions | null>
}

export default function SourceCode(props: Props) {
  const { language, value, onChange, readOnly, findings, actions } = props
  const view = useRef<EditorView | null>(null)
  const [ready, setReady] = useState(false)
  const latest = useRef(props)
  latest.current = props

  const extensions = useMemo(
    () => [
      Prec.highest(
        keymap.of([
          { key: 'Mod-Enter', run: () => run(latest.current.onPreview), stopPropagation: true, preventDefault: true },
          { key: 'Mod-s', run: () => run(latest.current.onSave), stopPropagation: true, preventDefault: true },
        ]),
      ),
      ViewPlugin.define(() => {
        queueMicrotask(() => setReady(true))
        return {}
      }),
      language === 'python' ? svcSupport(() => latest.current.configFields) : [],
    ],
    [language],
  )

  useEffect(() => {
    const editor = view.current
    if (!ready || findings === null || editor === null) return
    const { doc } = editor.state
    editor.dispatch(
      setDiagnostics(
        editor.state,
        findings.map((finding) => toDiagnostic(doc, finding)),
      ),
    )
  }, [findings, ready])

  useEffect(() => {
    actions.current = {
      jump(line, column = 0) {
        const editor = view.current
        if (editor === null) return
        const { doc } = editor.state
        const at = doc.line(Math.min(Math.max(1, line), doc.lines))
        const position = Math.min(at.from + column, at.to)
        editor.dispatch({
          selection: { anchor: position },
          effects: EditorView.scrollIntoView(position, { y: 'center' }),
        })
        editor.focus()
      },
    }
    return () => {
      actions.current = null
    }
  }, [actions])

  return (
    <CodeEditor
      value={value}
      onChange={onChange}
      language={language}
      label={language === 'python' ? 'Python code' : 'Manifest'}
      readOnly={readOnly}
      extensions={extensions}
      view={view}
    />
  )
}

function run(action: () => void): true {
  action()
  return true
}

/** Marks the word at the place, or the rest of the line where there is none. */
function toDiagnostic(doc: Text, { line, column, message, severity }: Finding): Diagnostic {
  const at = doc.line(Math.min(Math.max(1, line), doc.lines))
  const from = Math.min(at.from + column, at.to)
  const word = /^[\w.]+/.exec(doc.sliceString(from, at.to))?.[0].length ?? 0
  const to = word > 0 ? from + word : at.to
  return { from: from === to ? at.from : from, to, severity, message }
}
