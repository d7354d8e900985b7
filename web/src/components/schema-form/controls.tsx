/** The controls of single values. An empty one stands for no value, so that the default applies. */
import { lazy, Suspense } from 'react'
import fieldStyles from '../field.module.css'
import { useDraft } from './draft.ts'
import { readScalar, writeScalar } from './scalar.ts'
import { optionsOf, placeholderOf, presetOf, type Schema } from './schema.ts'
import styles from './schema-form.module.css'

const CodeEditor = lazy(() => import('../code-editor/code-editor.tsx'))

export interface Attributes {
  id: string
  'aria-describedby': string | undefined
  'aria-invalid': true | undefined
  'aria-required': true | undefined
}

export interface ControlProps {
  attributes: Attributes
  label: string
  schema: Schema
  value: unknown
  onChange(value: unknown): void
}

export function TextInput({ attributes, schema, value, onChange }: ControlProps) {
  return (
    <input
      {...attributes}
      className={fieldStyles.input}
      autoComplete="off"
      spellCheck={false}
      maxLength={schema.maxLength}
      placeholder={placeholderOf(schema)}
      value={typeof value === 'string' ? value : ''}
      onChange={(event) => onChange(event.target.value || undefined)}
    />
  )
}

export function NumberInput({ attributes, schema, value, onChange }: ControlProps) {
  return (
    <input
      {...attributes}
      className={`${fieldStyles.input} ${styles.number}`}
      type="number"
      min={schema.minimum}
      max={schema.maximum}
      step={schema.type === 'integer' ? 1 : 'any'}
      placeholder={placeholderOf(schema)}
      value={typeof value === 'number' ? value : ''}
      onChange={(event) => onChange(event.target.value === '' ? undefined : event.target.valueAsNumber)}
    />
  )
}

/** The value of an option may be any JSON, so the control holds its place in the list. */
export function Choice({ attributes, schema, value, onChange }: ControlProps) {
  const options = optionsOf(schema)!
  const preset = presetOf(schema)
  const chosen = options.findIndex((option) => option.value === value)
  return (
    <select
      {...attributes}
      className={fieldStyles.input}
      value={chosen === -1 ? '' : chosen}
      onChange={(event) => onChange(options[Number.parseInt(event.target.value, 10)]?.value)}
    >
      <option value="">
        {preset === undefined ? (attributes['aria-required'] ? 'Choose…' : 'Not set') : `${preset} (default)`}
      </option>
      {options.map((option, place) =>
        option.title === preset ? null : (
          <option key={option.title} value={place}>
            {option.title}
          </option>
        ),
      )}
      {chosen !== -1 && options[chosen]!.title === preset && <option value={chosen}>{preset}</option>}
    </select>
  )
}

export function ScalarInput({ attributes, schema, value, onChange }: ControlProps) {
  const [typed, change] = useDraft(value, onChange, writeScalar)
  return (
    <input
      {...attributes}
      className={fieldStyles.input}
      autoComplete="off"
      spellCheck={false}
      placeholder={placeholderOf(schema)}
      value={typed}
      onChange={(event) => change(event.target.value, readScalar(event.target.value))}
    />
  )
}

export function LongText({ attributes, label, schema, value, onChange }: ControlProps) {
  const text = typeof value === 'string' ? value : ''
  if (schema.contentMediaType === 'application/yaml')
    return (
      <div className={styles.code}>
        <Suspense fallback={<textarea {...attributes} className={styles.area} readOnly rows={16} value={text} />}>
          <CodeEditor
            language="yaml"
            label={label}
            value={text}
            onChange={(typed) => onChange(typed === '' ? undefined : typed)}
          />
        </Suspense>
      </div>
    )
  return (
    <textarea
      {...attributes}
      className={styles.area}
      rows={6}
      spellCheck={false}
      placeholder={schema.contentMediaType === 'application/x-pem-file' ? '-----BEGIN …' : placeholderOf(schema)}
      value={text}
      onChange={(event) => onChange(event.target.value || undefined)}
    />
  )
}

export function Lines({ attributes, value, onChange }: ControlProps) {
  const [typed, change] = useDraft(value, onChange, (stored) =>
    Array.isArray(stored) ? stored.join('\n') : typeof stored === 'string' ? stored : '',
  )
  const rows = typed.split('\n').length
  return (
    <textarea
      {...attributes}
      className={styles.area}
      rows={Math.min(8, Math.max(2, rows + 1))}
      placeholder="One per line"
      spellCheck={false}
      value={typed}
      onChange={(event) => {
        const lines = event.target.value.split('\n').filter((line) => line.trim() !== '')
        change(event.target.value, lines.length === 0 ? undefined : lines)
      }}
    />
  )
}

/** Whatever has no control of its own. What is not valid JSON yet stays in the field and is not passed on. */
export function JsonArea({ attributes, value, onChange }: ControlProps) {
  const [{ typed, wrong }, change] = useDraft(value, onChange, (stored) => ({
    typed: stored === undefined ? '' : JSON.stringify(stored, null, 2),
    wrong: false,
  }))
  function take(text: string) {
    try {
      change({ typed: text, wrong: false }, text.trim() === '' ? undefined : JSON.parse(text))
    } catch {
      change({ typed: text, wrong: true }, value)
    }
  }
  return (
    <>
      <textarea
        {...attributes}
        className={styles.area}
        aria-invalid={wrong || attributes['aria-invalid']}
        rows={4}
        placeholder="JSON"
        spellCheck={false}
        value={typed}
        onChange={(event) => take(event.target.value)}
      />
      {wrong && <p className={fieldStyles.problem}>This is not valid JSON yet, so it is not used.</p>}
    </>
  )
}
