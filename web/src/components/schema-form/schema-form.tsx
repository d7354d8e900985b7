/** A form drawn from a JSON Schema: the settings of connectors, custom sources and manifests. */
import { Either } from './either.tsx'
import { More } from './more.tsx'
import { applicable, arrange, isRequired, type Schema, type Settings, withValue } from './schema.ts'
import { SchemaField } from './schema-field.tsx'
import styles from './schema-form.module.css'

interface Props {
  schema: Schema
  value: Settings
  onChange(value: Settings): void
  /** What the server found, by the path of the setting: `tls.mode`. */
  problems?: Record<string, string>
  path?: string
  /** Nothing of it has to be given; once something is, what it needs is marked. */
  optional?: boolean
  /** Everything in the order of the schema, and nothing folded away. */
  flat?: boolean
}

export function SchemaForm({
  schema: whole,
  value,
  onChange,
  problems = {},
  path = '',
  optional = false,
  flat = false,
}: Props) {
  const schema = applicable(whole, value)
  const chosen = new Set(schema.either?.flatMap(({ fields }) => fields))
  const { first, more } = flat ? { first: Object.keys(schema.properties ?? {}), more: [] } : arrange(schema)
  const draw = (name: string) => (
    <SchemaField
      key={name}
      name={name}
      path={path + name}
      schema={schema.properties![name]!}
      required={!optional && isRequired(schema, name)}
      value={value[name]}
      onChange={(changed) => onChange(withValue(value, name, changed))}
      problems={problems}
    />
  )
  const others = (names: string[]) => names.filter((name) => !chosen.has(name))
  return (
    <div className={styles.form}>
      {schema.either && <Either either={schema.either} value={value} onChange={onChange} draw={draw} />}
      {others(first).map(draw)}
      <More
        title={first.length === 0 ? 'Settings' : 'More settings'}
        names={others(more)}
        used={(name) => value[name] !== undefined}
        wrong={(name) => hasProblem(problems, path + name)}
        draw={draw}
      />
    </div>
  )
}

function hasProblem(problems: Record<string, string>, path: string): boolean {
  return Object.keys(problems).some((key) => key === path || key.startsWith(`${path}.`) || key.startsWith(`${path}[`))
}
