/** Completion and explanations for the package `svc` in the Python editor. */
import {
  type Completion,
  type CompletionContext,
  type CompletionResult,
  type CompletionSource,
  snippetCompletion,
} from '@codemirror/autocomplete'
import { pythonLanguage } from '@codemirror/lang-python'
import type { EditorState, Extension } from '@codemirror/state'
import { type EditorView, hoverTooltip, type Tooltip } from '@codemirror/view'
import { type Described, described, moduleOf, modules, textOf, treeAt, typeOf, types } from './svc-types.ts'

/** The extension; `configFields` are those that the last validation found. */
export function svcSupport(configFields: () => readonly string[]): Extension {
  return [
    pythonLanguage.data.of({ autocomplete: completeWith(configFields) }),
    hoverTooltip((view, position) => explain(view, position), { hoverTime: 200 }),
  ]
}

function completeWith(configFields: () => readonly string[]): CompletionSource {
  return (context) =>
    completeImport(context) ??
    completeMember(context, configFields) ??
    completeArgument(context) ??
    completeName(context)
}

function completeImport(context: CompletionContext): CompletionResult | null {
  const line = context.state.doc.lineAt(context.pos)
  const before = line.text.slice(0, context.pos - line.from)
  const imported = /^\s*from\s+(svc[\w.]*)\s+import\s+(?:[\w\s,(]*[\s,(])?(\w*)$/.exec(before)
  if (imported) {
    const names = modules[imported[1]!]
    return names === undefined ? null : result(context, imported[2]!, Object.entries(names).map(toCompletion))
  }
  const module = /^\s*(?:from|import)\s+([\w.]*)$/.exec(before)
  if (!module) return null
  const options = Object.keys(modules).map((label): Completion => ({ label, type: 'namespace', boost: 50 }))
  return { from: context.pos - module[1]!.length, options, validFor: /^[\w.]*$/ }
}

function completeMember(context: CompletionContext, configFields: () => readonly string[]): CompletionResult | null {
  const typed = context.matchBefore(/\.\w*$/)
  if (typed === null) return null
  const { state } = context
  const member = enclosing(treeAt(state, context.pos).resolveInner(typed.from + 1, -1), 'MemberExpression')
  const owner = member?.firstChild ?? null
  if (owner === null || owner.to > typed.from) return null
  const type = typeOf(state, owner)
  if (type === null) return null
  const fields = type === 'SourceConfig' ? configFields() : []
  const options = [
    ...fields.map((label): Completion => ({ label, type: 'property', detail: 'setting', boost: 10 })),
    ...membersOf(type),
    ...(type === 'AbstractSource' ? ownMembers(state) : []),
  ]
  return options.length === 0 ? null : { from: typed.from + 1, options, validFor: /^\w*$/ }
}

/** In the order of the class, and what is called before what is only read: that is what one looks for most often. */
function membersOf(type: string): Completion[] {
  const members = Object.entries(types[type]!)
  const called = type === 'AbstractSource' ? [] : members.filter(([, { kind }]) => kind === 'function')
  const sorted = [...called, ...members.filter((member) => !called.includes(member))]
  return sorted.map((member, index) => ({ ...toCompletion(member), boost: sorted.length - index }))
}

/** The names of arguments inside of a call: `params=`. */
function completeArgument(context: CompletionContext): CompletionResult | null {
  const typed = context.matchBefore(/[(,]\s*\w*$/)
  if (typed === null) return null
  const { state } = context
  const list = enclosing(treeAt(state, context.pos).resolveInner(context.pos, -1), 'ArgList')
  const call = list?.parent
  if (call?.name !== 'CallExpression') return null
  const parameters = described(state, call.firstChild)?.parameters ?? []
  const word = /\w*$/.exec(typed.text)![0]
  const options = parameters.map(
    (name): Completion => ({ label: `${name}=`, type: 'property', detail: 'argument', boost: 20 }),
  )
  return options.length === 0 || (word === '' && !context.explicit) ? null : result(context, word, options)
}

/** Public names of the package. One that is not imported yet brings its import along. */
function completeName(context: CompletionContext): CompletionResult | null {
  const word = context.matchBefore(/\w+$/)
  if (word === null || /[.\w"']$/.test(context.state.sliceDoc(word.from - 1, word.from))) return null
  const inside = treeAt(context.state, context.pos).resolveInner(context.pos, -1).name
  if (inside === 'String' || inside === 'Comment' || inside === 'FormatString') return null
  const names = [...moduleOf].map(([name, module]) => {
    const completion = toCompletion([name, modules[module]![name]!])
    return { ...completion, detail: module, apply: withImport(name, module) }
  })
  return { from: word.from, options: [...names, SKELETON], validFor: /^\w*$/ }
}

const SKELETON = snippetCompletion(
  `class \${MySource}(AbstractSource):
    name = "\${my_source}"

    def get_streams(self) -> list[str]:
        return ["\${items}"]

    def check_connection(self) -> bool:
        return True

    def get_records(self, stream: str):
        yield SourceRecord(id=1, data={\${}})
`,
  { label: 'source', detail: 'the class of a source', type: 'text' },
)

type Apply = (view: EditorView, completion: Completion, from: number, to: number) => void

function withImport(name: string, module: string): Apply {
  return (view, _completion, from, to) => {
    const changes = [{ from, to, insert: name }]
    const added = importFor(view.state, name, module)
    view.dispatch({
      changes: added === null ? changes : [added, ...changes],
      selection: { anchor: from + name.length + (added?.insert.length ?? 0) },
      userEvent: 'input.complete',
    })
  }
}

function importFor(state: EditorState, name: string, module: string): { from: number; insert: string } | null {
  const text = state.doc.toString()
  if (new RegExp(`^\\s*(?:from\\s+svc[\\w.]*\\s+)?import\\s.*\\b${name}\\b`, 'm').test(text)) return null
  const same = new RegExp(`^from ${module.replaceAll('.', '\\.')} import (?!\\()[^\\n#]*`, 'm').exec(text)
  if (same) return { from: same.index + same[0].trimEnd().length, insert: `, ${name}` }
  const last = [...text.matchAll(/^(?:from\s+\S+\s+)?import\s[^\n]*$/gm)].at(-1)
  const at = last === undefined ? 0 : last.index + last[0].length + 1
  return { from: Math.min(at, text.length), insert: `from ${module} import ${name}\n` }
}

/** Methods of the person's own classes. */
function ownMembers(state: EditorState): Completion[] {
  const names = new Set([...state.doc.toString().matchAll(/^\s+def\s+(\w+)\s*\(self/gm)].map(([, name]) => name!))
  const known = types.AbstractSource!
  return [...names]
    .filter((name) => !Object.hasOwn(known, name) && !name.startsWith('__'))
    .map((label) => ({ label, type: 'method' }))
}

function toCompletion([label, { kind, signature, doc }]: [string, Described]): Completion {
  return {
    label,
    type: kind === 'attribute' ? 'property' : kind === 'class' ? 'class' : 'function',
    info: () => card(signature, doc),
  }
}

function explain(view: EditorView, position: number): Tooltip | null {
  const node = treeAt(view.state, position).resolveInner(position, -1)
  const about = node.name === 'PropertyName' ? described(view.state, node.parent) : described(view.state, node)
  if (about === null || textOf(view.state, node) === 'self') return null
  return { pos: node.from, end: node.to, create: () => ({ dom: card(about.signature, about.doc) }) }
}

/** A signature and its docstring, all of it as text. */
function card(signature: string, doc: string): HTMLElement {
  const box = document.createElement('div')
  box.className = 'cm-svc'
  const head = document.createElement('code')
  head.textContent = signature
  const words = document.createElement('p')
  words.textContent = doc.replaceAll('`', '')
  box.append(head, ...(doc === '' ? [] : [words]))
  return box
}

function result(context: CompletionContext, word: string, options: Completion[]): CompletionResult {
  return { from: context.pos - word.length, options, validFor: /^\w*$/ }
}

function enclosing<T extends { name: string; parent: T | null }>(node: T, name: string): T | null {
  for (let each: T | null = node; each !== null; each = each.parent) if (each.name === name) return each
  return null
}
