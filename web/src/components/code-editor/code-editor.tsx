/** A field for code. Import it lazily: CodeMirror is larger than the rest of a page. */
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, indentUnit } from '@codemirror/language'
import { lintGutter, lintKeymap } from '@codemirror/lint'
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search'
import { Compartment, EditorState, type Extension } from '@codemirror/state'
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from '@codemirror/view'
import { type RefObject, useEffect, useRef } from 'react'
import styles from './code-editor.module.css'
import { type Language, loadLanguage } from './language.ts'
import { theme } from './theme.ts'

interface CodeEditorProps {
  /** A change from outside replaces the text; what the person types comes back through onChange. */
  value: string
  onChange?: (value: string) => void
  language: Language
  /** What a screen reader calls the field. */
  label: string
  readOnly?: boolean
  /** More behaviour: keys, completion, marks. Compared by identity, so keep it outside the component or in a memo. */
  extensions?: Extension
  /** To dispatch marks or move the cursor from outside. */
  view?: RefObject<EditorView | null>
}

export default function CodeEditor(props: CodeEditorProps) {
  const { value, language, label, readOnly = false, extensions } = props
  const box = useRef<HTMLDivElement>(null)
  const own = useRef<EditorView | null>(null)
  const view = props.view ?? own
  const onChange = useRef(props.onChange)
  onChange.current = props.onChange
  const parts = useRef({ language: new Compartment(), settings: new Compartment(), extra: new Compartment() }).current
  const start = useRef(value)

  useEffect(() => {
    const root = openRoot(box.current!)
    const editor = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        doc: start.current,
        extensions: [
          // Extensions of the page come first, so that their keys win.
          parts.extra.of([]),
          parts.language.of([]),
          parts.settings.of([]),
          basics,
          theme,
          EditorView.updateListener.of((update) => {
            if (update.docChanged) onChange.current?.(update.state.doc.toString())
          }),
        ],
      }),
    })
    view.current = editor
    return () => {
      start.current = editor.state.doc.toString()
      view.current = null
      editor.destroy()
    }
  }, [parts, view])

  useEffect(() => {
    const { state } = view.current!
    if (state.doc.toString() !== value)
      view.current!.dispatch({ changes: { from: 0, to: state.doc.length, insert: value } })
  }, [value, view])

  useEffect(() => {
    let wanted = true
    void loadLanguage(language).then((loaded) => {
      if (wanted) view.current?.dispatch({ effects: parts.language.reconfigure(loaded) })
    })
    return () => {
      wanted = false
    }
  }, [language, parts, view])

  useEffect(() => {
    const settings = [
      EditorState.readOnly.of(readOnly),
      EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
      indentUnit.of(language === 'python' ? '    ' : '  '),
    ]
    view.current?.dispatch({ effects: parts.settings.reconfigure(settings) })
  }, [readOnly, label, language, parts, view])

  useEffect(() => {
    view.current?.dispatch({ effects: parts.extra.reconfigure(extensions ?? []) })
  }, [extensions, parts, view])

  return <div ref={box} className={styles.editor} />
}

/**
 * The editor's own root. CodeMirror writes its styles into a style element where it shares the page's, which the
 * Content-Security-Policy forbids; in a shadow root it adopts a style sheet.
 */
function openRoot(host: HTMLElement): ShadowRoot {
  if (host.shadowRoot) return host.shadowRoot
  // Outside of the root an event seems to come from the host, so that shortcuts of the page would take typing for theirs.
  host.addEventListener('keydown', (event) => {
    if (!event.ctrlKey && !event.metaKey) event.stopPropagation()
  })
  return host.attachShadow({ mode: 'open' })
}

const basics: Extension = [
  lineNumbers(),
  highlightActiveLineGutter(),
  history(),
  foldGutter(),
  drawSelection(),
  indentOnInput(),
  bracketMatching(),
  closeBrackets(),
  autocompletion(),
  highlightActiveLine(),
  highlightSelectionMatches(),
  lintGutter(),
  // Tab indents, as everywhere where code is written; Escape, then Tab, leaves the field.
  keymap.of([
    ...closeBracketsKeymap,
    ...defaultKeymap,
    ...searchKeymap,
    ...historyKeymap,
    ...foldKeymap,
    ...completionKeymap,
    ...lintKeymap,
    indentWithTab,
  ]),
]
