import authenticationSchemas from 'virtual:authentication-schemas'
import fieldStyles from '../../components/field.module.css'
import { Labelled } from '../../components/labelled.tsx'
import { isObject, type Schema } from '../../components/schema-form/schema.ts'
import { SchemaForm } from '../../components/schema-form/schema-form.tsx'
import type { TrialSettings } from './trial-form.tsx'

/** A type that only the source knows has params that only it knows. */
const ANY: Schema = { type: 'object', properties: { params: { type: 'object', title: 'Params' } } }

interface Props {
  /** Named by the code; null: any. */
  type: string | null
  value: TrialSettings['authentication']
  onChange(value: TrialSettings['authentication']): void
}

export function TrialAuthentication({ type: named, value, onChange }: Props) {
  const types = named === null ? Object.keys(authenticationSchemas).filter((type) => type !== 'none') : [named]
  const type = value?.type ?? 'none'
  const params = value?.params ?? {}
  const schema = authenticationSchemas[type]
  return (
    <>
      <Labelled label="Authentication">
        {(attributes) => (
          <select
            {...attributes}
            className={fieldStyles.input}
            value={type}
            onChange={({ target }) =>
              onChange(target.value === 'none' ? undefined : { type: target.value, params: {} })
            }
          >
            {['none', ...types].map((name) => (
              <option key={name} value={name}>
                {name.replaceAll('_', ' ')}
              </option>
            ))}
          </select>
        )}
      </Labelled>
      {type !== 'none' && schema && (
        <SchemaForm schema={schema} value={params} onChange={(changed) => onChange({ type, params: changed })} />
      )}
      {type !== 'none' && !schema && (
        <SchemaForm
          schema={ANY}
          value={{ params }}
          onChange={(changed) => onChange({ type, params: isObject(changed.params) ? changed.params : {} })}
        />
      )}
    </>
  )
}
