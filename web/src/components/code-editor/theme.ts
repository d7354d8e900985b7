/** The editor in the console's own colours, so that both themes and a change between them need nothing else. */
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language'
import { EditorView } from '@codemirror/view'
import { tags } from '@lezer/highlight'

const look = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--surface)', height: '100%', fontSize: '13px' },
  // The ring is around the field itself: inside, the gutter would cover it.
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '20px' },
  '.cm-content': { caretColor: 'var(--text)', padding: '8px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--surface-sunken)', color: 'var(--text-faint)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--surface-hover)' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground, .cm-content ::selection': {
    backgroundColor: 'var(--accent-fill) !important',
  },
  '.cm-panels, .cm-tooltip': {
    backgroundColor: 'var(--surface-raised)',
    color: 'var(--text)',
    border: '1px solid var(--line-strong)',
    borderRadius: 'var(--radius)',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-textfield, .cm-button': {
    backgroundColor: 'var(--surface)',
    backgroundImage: 'none',
    color: 'var(--text)',
    border: '1px solid var(--control-line)',
    borderRadius: 'var(--radius)',
  },
  '.cm-tooltip-lint, .cm-tooltip.cm-completionInfo, .cm-tooltip-hover': { maxWidth: '520px', overflow: 'hidden' },
  '.cm-diagnostic': { padding: '4px 8px', fontFamily: 'var(--font)' },
  '.cm-svc': { padding: '4px 8px', fontFamily: 'var(--font)', lineHeight: '18px' },
  '.cm-svc code': { display: 'block', fontFamily: 'var(--mono)', color: 'var(--text)' },
  '.cm-svc p': { margin: '4px 0 0', whiteSpace: 'pre-wrap', color: 'var(--text-soft)' },
  // The sign at its ends is missing in many fonts.
  '.cm-collapsedLines': { background: 'var(--surface-sunken) !important', color: 'var(--text-faint)' },
  '.cm-collapsedLines::before, .cm-collapsedLines::after': { content: '"" !important' },
  '.cm-lineNumbers .cm-gutterElement': { minWidth: '36px' },
})

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: 'var(--blue)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--green)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'var(--amber)' },
  { tag: [tags.comment, tags.meta], color: 'var(--text-faint)', fontStyle: 'italic' },
  {
    tag: [tags.function(tags.definition(tags.variableName)), tags.className],
    color: 'var(--accent)',
    fontWeight: '600',
  },
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--accent)' },
  { tag: tags.invalid, color: 'var(--red)' },
])

export const theme = [look, syntaxHighlighting(colours)]
