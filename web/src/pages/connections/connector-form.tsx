/** The settings of a connector, and for a source its authentication. Used for saved connectors and inside a pipeline. */
import authenticationSchemas from 'virtual:authentication-schemas'
import type { Connector } from '../../api/queries.ts'
import fieldStyles from '../../components/field.module.css'
import { hideSecrets } from '../../components/schema-form/hide-secrets.ts'
import { Pairs } from '../../components/schema-form/pairs.tsx'
import type { Schema, Settings } from '../../components/schema-form/schema.ts'
import formStyles from '../../components/schema-form/schema-form.module.css'
import { SchemaForm } from '../../components/schema-form/schema-form.tsx'
import { useSettingsSchema } from './manifest-settings.ts'

export interface ConnectorSettings {
  config: Settings
  authentication?: { type: string; params: Settings }
}

/** For a form: what is stored and secret is shown as a mask, and a mask that is sent back keeps it. */
export function hideConnectorSecrets(connector: Connector, settings: ConnectorSettings): ConnectorSettings {
  const { config, authentication } = settings
  return {
    config: hideSecrets(connector.config_schema as Schema, config),
    ...(authentication && {
      authentication: {
        ...authentication,
        params: hideSecrets(paramsOf(authentication.type, authentication.params), authentication.params ?? {}),
      },
    }),
  }
}

/** A type of a custom source's own may have any params, each of them a secret. */
function paramsOf(type: string, params: Settings = {}): Schema {
  const secret: Schema = { type: 'string', secret: true }
  return (
    authenticationSchemas[type] ?? {
      properties: Object.fromEntries(Object.keys(params).map((name) => [name, secret])),
      additionalProperties: secret,
    }
  )
}

interface Props {
  connector: Connector
  value: ConnectorSettings
  onChange(value: ConnectorSettings): void
  /** By path: `config.port`, `authentication.params.token`. */
  problems?: Record<string, string>
}

export function ConnectorForm({ connector, value, onChange, problems = {} }: Props) {
  const schema = useSettingsSchema(connector, value.config)
  const types = 'auth_types' in connector ? connector.auth_types.filter((type) => type !== 'none') : []
  return (
    <div className={formStyles.form}>
      <SchemaForm
        schema={schema}
        value={value.config}
        onChange={(config) => onChange({ ...value, config })}
        problems={under('config.', problems)}
      />
      {problems.config && <p className={fieldStyles.problem}>{problems.config}</p>}
      {types.length > 0 && (
        <fieldset className={formStyles.fieldset}>
          <legend>Authentication</legend>
          <AuthenticationForm types={types} value={value} onChange={onChange} problems={problems} />
        </fieldset>
      )}
    </div>
  )
}

const AUTHENTICATION_WORDS: Record<string, string> = {
  none: 'None',
  api_key: 'API key',
  bearer: 'Bearer token',
  basic: 'User name and password',
  oauth2_client_credentials: 'OAuth 2.0 client credentials',
  oauth2_refresh_token: 'OAuth 2.0 refresh token',
}

function AuthenticationForm({ types, value, onChange, problems = {} }: Omit<Props, 'connector'> & { types: string[] }) {
  const { type = 'none', params = {} } = value.authentication ?? {}
  const schema = authenticationSchemas[type]
  function choose(chosen: string) {
    const { authentication: _, ...rest } = value
    onChange(chosen === 'none' ? rest : { ...rest, authentication: { type: chosen, params: {} } })
  }
  return (
    <>
      <label className={fieldStyles.field}>
        Type
        <select className={fieldStyles.input} value={type} onChange={(event) => choose(event.target.value)}>
          {['none', ...types].map((name) => (
            <option key={name} value={name}>
              {AUTHENTICATION_WORDS[name] ?? name.replaceAll('_', ' ')}
            </option>
          ))}
        </select>
      </label>
      {!schema && type !== 'none' && (
        <Pairs
          label="Parameters"
          schema={{ secret: true, additionalProperties: { type: 'string' } }}
          value={params}
          onChange={(changed) => onChange({ ...value, authentication: { type, params: (changed ?? {}) as Settings } })}
        />
      )}
      {schema && (
        <SchemaForm
          schema={schema}
          value={params}
          onChange={(changed) => onChange({ ...value, authentication: { type, params: changed } })}
          problems={under('authentication.params.', problems)}
        />
      )}
    </>
  )
}

function under(prefix: string, problems: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(problems).flatMap(([path, problem]) =>
      path.startsWith(prefix) ? [[path.slice(prefix.length), problem]] : [],
    ),
  )
}
