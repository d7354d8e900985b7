/** Code on one side, what it reads on the other. */
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from 'react'
import { Skeleton } from '../../components/notice.tsx'
import type { SourceLanguage, Trial } from './authored.ts'
import type { DraftState } from './draft.ts'
import { MOD } from './keys.ts'
import { PreviewLog, PreviewResult } from './preview-result.tsx'
import { toForm, withoutSecrets, withoutTexts } from './settings.ts'
import type { EditorActions } from './source-code.tsx'
import { Strip } from './strip.tsx'
import { TrialBar, type TrialSettings, TrialSettingsForm } from './trial-form.tsx'
import { usePreview } from './use-preview.ts'
import type { LiveValidation } from './use-validation.ts'
import styles from './workspace.module.css'

const SourceCode = lazy(() => import('./source-code.tsx'))

interface Props {
  language: SourceLanguage
  draft: DraftState
  validation: LiveValidation
  /** The person may try and change it. */
  may: boolean
  onSave(): void
  /** Kept up to date, for actions outside that need what is typed here. */
  onTrial(trial: Trial): void
}

export function Workspace({ language, draft: { draft, change }, validation, may, onSave, onTrial }: Props) {
  const [trial, setTrial] = useState<TrialSettings>(() => ({
    stream: '',
    amount: 10,
    config: draft.config,
    authentication: undefined,
  }))
  const preview = usePreview()
  const editor = useRef<EditorActions | null>(null)
  const asks = useRef<HTMLElement>(null)
  const { current, lastValid } = validation
  const streams = lastValid?.streams ?? []
  const schema = useMemo(() => (lastValid?.settings ? toForm(lastValid.settings) : null), [lastValid])
  const stream = streams.includes(trial.stream) || isOpen(streams) ? trial.stream : (streams[0] ?? '')
  const whole: Trial = {
    language,
    code: draft.code,
    stream,
    config: trial.config,
    authentication: trial.authentication,
  }

  function changeTrial(changed: TrialSettings) {
    setTrial(changed)
    if (changed.config === trial.config) return
    const { config } = changed
    change({ config: language === 'python' ? withoutTexts(config) : withoutSecrets(schema, config) })
  }
  function jump(line: number, column = 0) {
    editor.current?.jump(line, column)
  }
  function read() {
    if (!may) return
    const [first] = current?.findings ?? []
    // Code that cannot be read gives no records; the way to the mistake is more use than a message about it.
    if (current?.valid === false && first) return jump(first.line, first.column)
    // The same for a setting that is required and empty.
    const required = asks.current?.querySelectorAll<HTMLInputElement>('[aria-required="true"]') ?? []
    const empty = [...required].find(({ value }) => value === '')
    if (empty) return empty.focus()
    if (stream !== '') preview.start(whole, trial.amount)
  }

  useEffect(() => onTrial(whole))
  useEffect(() => {
    function press(event: KeyboardEvent) {
      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      read()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  })

  const form = {
    language,
    streams,
    schema,
    authType: lastValid?.auth_type ?? null,
    value: { ...trial, stream },
    onChange: changeTrial,
    since: preview.since,
    onPreview: read,
    onCancel: preview.cancel,
  }
  return (
    <div className={styles.workspace}>
      <section className={styles.code} aria-label="Code">
        <Suspense fallback={<Skeleton rows={14} height={20} />}>
          <SourceCode
            language={language}
            value={draft.code}
            onChange={(code) => change({ code })}
            readOnly={!may}
            findings={current?.findings ?? null}
            configFields={lastValid?.config_fields ?? []}
            onPreview={read}
            onSave={onSave}
            actions={editor}
          />
        </Suspense>
        {may && <Strip validation={validation} onJump={jump} />}
      </section>
      {may && (
        <>
          <section ref={asks} className={styles.asks} aria-label="Preview settings">
            <TrialBar {...form} />
            <TrialSettingsForm {...form} />
          </section>
          <section className={styles.preview} aria-label="Preview">
            <PreviewResult
              state={preview}
              onJump={jump}
              hint={`${MOD}Enter reads the first records of the stream with the code as it is. Nothing has to be saved.`}
            />
          </section>
          <PreviewLog state={preview} onJump={jump} />
        </>
      )}
    </div>
  )
}

/** The streams come from the server, so any name may be one. */
function isOpen(streams: readonly string[]): boolean {
  return streams.length === 0 || (streams.length === 1 && streams[0] === 'dynamic')
}
