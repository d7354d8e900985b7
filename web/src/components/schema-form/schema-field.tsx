/** One setting: its label, its control, and its hint or problem. */
import { type ReactNode, useId } from 'react'
import fieldStyles from '../field.module.css'
import {
  type Attributes,
  Choice,
  type ControlProps,
  JsonArea,
  Lines,
  LongText,
  NumberInput,
  ScalarInput,
  TextInput,
} from './controls.tsx'
import { Description } from './description.tsx'
import { List } from './list.tsx'
import { Many } from './many.tsx'
import { Pairs } from './pairs.tsx'
import { isObject, isSecret, type Kind, kindOf, labelOf, MASK, type Schema, withoutNull } from './schema.ts'
import styles from './schema-form.module.css'
import { SchemaForm } from './schema-form.tsx'
import { SecretInput, StoredSecret } from './secret-input.tsx'
import { Variants } from './variants.tsx'

interface Props {
  name: string
  path: string
  schema: Schema
  required: boolean
  value: unknown
  onChange(value: unknown): void
  problems: Record<string, string>
  /** That it is required need not be said: it is there because somebody added it. */
  unmarked?: boolean
  /** Something around it names it already. */
  bare?: boolean
}

export function SchemaField(props: Props) {
  const schema = withoutNull(props.schema)
  const kind = kindOf(schema)
  const drawn = { ...props, schema, kind, label: labelOf(props.name, schema) }
  if (isSecret(schema) && props.value === MASK && kind !== 'secret')
    return (
      <Grouped {...drawn}>
        <StoredSecret onReplace={() => props.onChange(undefined)} />
      </Grouped>
    )
  if (kind === 'boolean') return <Checkbox {...drawn} />
  if (GROUPED.includes(kind))
    return (
      <Grouped {...drawn}>
        <Complex {...drawn} />
      </Grouped>
    )
  return <Labelled {...drawn}>{(attributes) => <Control {...drawn} attributes={attributes} />}</Labelled>
}

const GROUPED: readonly Kind[] = ['group', 'pairs', 'list', 'many', 'variants']

interface Drawn extends Props {
  kind: Kind
  label: string
}

function Grouped(props: Drawn & { children: ReactNode }) {
  const { label, schema, required, bare, unmarked, children } = props
  const problem = problemOf(props)
  return (
    <fieldset className={styles.fieldset}>
      <legend className={bare ? 'visually-hidden' : undefined}>
        {label}
        {required && !bare && !unmarked && <Required />}
      </legend>
      {schema.description && (
        <p className={fieldStyles.hint}>
          <Description text={schema.description} />
        </p>
      )}
      {children}
      {problem && <p className={fieldStyles.problem}>{problem}</p>}
    </fieldset>
  )
}

function Complex({ kind, label, path, schema, required, value, onChange, problems, bare }: Drawn) {
  switch (kind) {
    case 'pairs':
      return <Pairs {...{ label, schema, value, onChange }} />
    case 'many':
      return <Many {...{ schema, value, onChange }} />
    case 'list':
      return <List {...{ label, path, schema, value, onChange, problems }} />
    case 'variants':
      return <Variants {...{ label, path, schema, required, value, onChange, problems }} />
    default:
      return (
        <div className={bare ? undefined : styles.group}>
          <SchemaForm
            schema={schema}
            value={isObject(value) ? value : {}}
            onChange={(changed) => onChange(Object.keys(changed).length === 0 ? undefined : changed)}
            problems={problems}
            path={`${path}.`}
            optional={!required && value === undefined}
          />
        </div>
      )
  }
}

function Labelled({
  label,
  path,
  schema,
  kind,
  required,
  value,
  problems,
  unmarked,
  children,
}: Drawn & { children(attributes: Attributes): ReactNode }) {
  const id = useId()
  const problem = problemOf({ path, kind, value, problems })
  const hint = schema.description
  return (
    <div className={fieldStyles.field}>
      <label htmlFor={id}>
        {label}
        {required && !unmarked && <Required />}
      </label>
      {children({
        id,
        'aria-required': required || undefined,
        'aria-invalid': problem ? true : undefined,
        'aria-describedby': problem || hint ? `${id}-about` : undefined,
      })}
      {(problem ?? hint) && (
        <p id={`${id}-about`} className={problem ? fieldStyles.problem : fieldStyles.hint}>
          {problem ?? <Description text={hint!} />}
        </p>
      )}
    </div>
  )
}

function Required() {
  return <span className={styles.required}> required</span>
}

function Control({ kind, attributes, label, schema, value, onChange }: Drawn & { attributes: Attributes }) {
  const control: ControlProps = { attributes, label, schema, value, onChange }
  switch (kind) {
    case 'choice':
      return <Choice {...control} />
    case 'number':
      return <NumberInput {...control} />
    case 'secret':
      return <SecretInput {...{ attributes, value, onChange }} />
    case 'long':
      return <LongText {...control} />
    case 'texts':
      return <Lines {...control} />
    case 'scalar':
      return <ScalarInput {...control} />
    case 'text':
      return <TextInput {...control} />
    default:
      return <JsonArea {...control} />
  }
}

function Checkbox({ label, path, schema, value, onChange, problems }: Drawn) {
  const id = useId()
  const about = problems[path] ?? schema.description
  // The description is the only place that names a default which depends on something else.
  const preset = schema.default ?? /Default:? true\b/.test(schema.description ?? '')
  return (
    <div className={fieldStyles.field}>
      <label className={styles.check}>
        <input
          type="checkbox"
          checked={typeof value === 'boolean' ? value : preset === true}
          aria-describedby={about ? id : undefined}
          onChange={(event) => onChange(event.target.checked)}
        />
        {label}
      </label>
      {about && (
        <p id={id} className={problems[path] ? fieldStyles.problem : fieldStyles.hint}>
          {problems[path] ?? <Description text={about} />}
        </p>
      )}
    </div>
  )
}

/** A value without controls of its own inside also shows what is wrong inside it; a chosen shape shows its own. */
function problemOf({ path, kind, value, problems }: Pick<Drawn, 'path' | 'kind' | 'value' | 'problems'>) {
  if (kind === 'variants' && value !== undefined) return undefined
  const whole = ['json', 'texts', 'pairs', 'many'].includes(kind)
  return problems[path] ?? (whole ? problemBelow(problems, path) : undefined)
}

function problemBelow(problems: Record<string, string>, path: string): string | undefined {
  const found = Object.entries(problems).find(([key]) => key.startsWith(`${path}.`) || key.startsWith(`${path}[`))
  return found && `${found[0].slice(path.length).replace(/^\./, '')}: ${found[1]}`
}
