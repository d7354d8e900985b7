/** Two texts side by side, or one above the other where there is no room. Import it lazily. */
import { MergeView, unifiedMergeView } from '@codemirror/merge'
import { EditorState, type Extension } from '@codemirror/state'
import { EditorView, lineNumbers } from '@codemirror/view'
import { useEffect, useRef } from 'react'
import { type Language, loadLanguage } from '../../components/code-editor/language.ts'
import { theme } from '../../components/code-editor/theme.ts'
import styles from './versions.module.css'

interface Props {
  language: Language
  before: string
  after: string
}

const NARROW = '(max-width: 899px)'

export default function VersionDiff({ language, before, after }: Props) {
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    let shown: { destroy(): void } | null = null
    let wanted = true
    void loadLanguage(language).then((loaded) => {
      if (wanted) shown = show(box.current!, { before, after, extensions: [loaded, ...FIXED] })
    })
    return () => {
      wanted = false
      shown?.destroy()
    }
  }, [language, before, after])
  return <div ref={box} className={styles.diff} />
}

const FIXED: Extension[] = [
  lineNumbers(),
  EditorState.readOnly.of(true),
  EditorView.editable.of(false),
  EditorView.lineWrapping,
  // What cannot be edited can still be scrolled by keyboard.
  EditorView.contentAttributes.of({ tabindex: '0', 'aria-label': 'Code' }),
  theme,
]

interface Shown {
  before: string
  after: string
  extensions: Extension[]
}

function show(host: HTMLElement, { before, after, extensions }: Shown): { destroy(): void } {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
  const collapseUnchanged = { margin: 3, minSize: 6 }
  if (!matchMedia(NARROW).matches)
    return new MergeView({
      a: { doc: before, extensions },
      b: { doc: after, extensions },
      parent: root,
      root,
      collapseUnchanged,
      gutter: true,
    })
  const unified = unifiedMergeView({ original: before, mergeControls: false, collapseUnchanged })
  return new EditorView({ doc: after, extensions: [unified, ...extensions], parent: root, root })
}
