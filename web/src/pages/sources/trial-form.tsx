/** What a preview is made with: the stream, how many records, and the settings that the source asks for. */
import { Button } from '../../components/button.tsx'
import fieldStyles from '../../components/field.module.css'
import type { Schema, Settings } from '../../components/schema-form/schema.ts'
import { SchemaForm } from '../../components/schema-form/schema-form.tsx'
import type { SourceLanguage } from './authored.ts'
import { Elapsed } from './elapsed.tsx'
import { MOD } from './keys.ts'
import { countSettings, missingIn } from './settings.ts'
import { TrialAuthentication } from './trial-authentication.tsx'
import styles from './workspace.module.css'

const AMOUNTS = [10, 50, 200]

/** Nothing of it is saved with the source. */
export interface TrialSettings {
  stream: string
  amount: number
  config: Settings
  authentication: { type: string; params: Settings } | undefined
}

interface Props {
  language: SourceLanguage
  streams: readonly string[]
  schema: Schema | null
  /** Named by the code; null: any. */
  authType: string | null
  value: TrialSettings
  onChange(value: TrialSettings): void
  since: number | null
  onPreview(): void
  onCancel(): void
}

export function TrialBar({ streams, value, onChange, since, onPreview, onCancel }: Props) {
  const open = streams.length === 0 || (streams.length === 1 && streams[0] === 'dynamic')
  return (
    <div className={styles.trial}>
      {open ? (
        <input
          aria-label="Stream"
          className={`${fieldStyles.input} ${styles.streamField}`}
          placeholder="Stream"
          value={value.stream}
          onChange={(event) => onChange({ ...value, stream: event.target.value })}
        />
      ) : (
        <select
          aria-label="Stream"
          className={`${fieldStyles.input} ${styles.streamField}`}
          value={value.stream}
          onChange={(event) => onChange({ ...value, stream: event.target.value })}
        >
          {streams.map((stream) => (
            <option key={stream}>{stream}</option>
          ))}
        </select>
      )}
      <select
        aria-label="Records"
        className={`${fieldStyles.input} ${styles.amount}`}
        value={value.amount}
        onChange={(event) => onChange({ ...value, amount: Number(event.target.value) })}
      >
        {AMOUNTS.map((amount) => (
          <option key={amount} value={amount}>
            {amount} records
          </option>
        ))}
      </select>
      {since === null ? (
        <Button look="primary" onClick={onPreview} aria-keyshortcuts="Control+Enter Meta+Enter">
          Preview <kbd>{MOD}↵</kbd>
        </Button>
      ) : (
        <>
          <Button onClick={onCancel}>Cancel</Button>
          <span className="soft" role="status">
            Reading <Elapsed since={since} />
          </span>
        </>
      )}
    </div>
  )
}

export function TrialSettingsForm({ language, schema, authType, value, onChange }: Props) {
  const count = countSettings(schema)
  const missing = missingIn(schema, value.config)
  if (count === 0 && language === 'yaml') return null
  return (
    <details className={styles.settings} open={missing.length > 0 || undefined}>
      <summary>
        Settings for the preview
        <span className="faint"> {said(count, missing, value.authentication?.type)}</span>
      </summary>
      <div className={styles.settingsBody}>
        {schema !== null && count > 0 && (
          <SchemaForm schema={schema} value={value.config} onChange={(config) => onChange({ ...value, config })} />
        )}
        {language === 'python' && (
          <TrialAuthentication
            type={authType}
            value={value.authentication}
            onChange={(authentication) => onChange({ ...value, authentication })}
          />
        )}
        <p className="faint">Used for previews and checks only. Secrets are not kept when you leave this page.</p>
      </div>
    </details>
  )
}

function said(count: number, missing: readonly string[], type: string | undefined): string {
  if (missing.length > 0) return `${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} still empty`
  const settings = count === 0 ? '' : `${count} ${count === 1 ? 'setting' : 'settings'}`
  return [settings, type?.replaceAll('_', ' ')].filter(Boolean).join(', ')
}
