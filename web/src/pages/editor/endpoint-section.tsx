/** One end of the pipeline: what it is, its settings, and whether it works. */
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { answer, api } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { problemsOf } from '../../api/problems.ts'
import { Button } from '../../components/button.tsx'
import { Field } from '../../components/field.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import type { Schema } from '../../components/schema-form/schema.ts'
import formStyles from '../../components/schema-form/schema-form.module.css'
import { SchemaForm } from '../../components/schema-form/schema-form.tsx'
import { ConnectorForm, type ConnectorSettings } from '../connections/connector-form.tsx'
import { connectorOf, missingSettings, partOf, savedOf, settingsOf, titleOf } from './connectors.ts'
import { type Draft, type Side, sideOf, withPattern, withStreams } from './draft.ts'
import { type Editor, under } from './editor.ts'
import { EndpointPicker } from './endpoint-picker.tsx'
import styles from './endpoint-section.module.css'
import { type Fields, isObject, setIn } from './fields.ts'

export function EndpointSection({ side, editor }: { side: Side; editor: Editor }) {
  const { draft, update, known } = editor
  const [choosing, setChoosing] = useState(false)
  const endpoint = sideOf(draft, side)
  function pick(picked: Fields) {
    setChoosing(false)
    update((now) => withEndpoint(now, side, picked))
  }
  if (endpoint === null || choosing) return <EndpointPicker side={side} known={known} onPick={pick} />
  return <ChosenEndpoint side={side} endpoint={endpoint} editor={editor} onChange={() => setChoosing(true)} />
}

/** Another source has other streams. */
function withEndpoint(draft: Draft, side: Side, endpoint: Fields): Draft {
  const changed = { ...draft, config: { ...draft.config, [side]: endpoint } }
  return side === 'source' ? withStreams(changed, []) : changed
}

interface ChosenProps {
  side: Side
  endpoint: Fields
  editor: Editor
  onChange(): void
}

function ChosenEndpoint({ side, endpoint, editor, onChange }: ChosenProps) {
  const { draft, update, known, problems, revision } = editor
  const connector = connectorOf(known, side, endpoint)
  const saved = savedOf(known, side, endpoint)
  const schema = settingsOf(connector)
  const own = schema && partOf(schema, 'own', draft.many ? ['table'] : [])
  const connection = schema && partOf(schema, 'connection')
  const inline = endpoint.name !== undefined
  const settings: Fields = isObject(endpoint.config) ? endpoint.config : {}
  const setSettings = (config: Fields) =>
    update((now) => ({
      ...now,
      config: setIn(now.config, [side, 'config'], Object.keys(config).length === 0 ? undefined : config),
    }))
  return (
    <>
      <div className={styles.chosen}>
        <div>
          <p className={styles.chosenTitle}>{titleOf(known, side, endpoint)}</p>
          <p className="soft">
            {saved
              ? `Saved ${connector?.display_name ?? saved.connector_name} connection`
              : (connector?.description ?? 'This installation does not have it; edit it as JSON.')}
          </p>
        </div>
        <Button onClick={onChange}>Choose another</Button>
      </div>
      {inline && connector && (
        <ConnectionSettings key={revision} {...{ side, endpoint, editor, connector }} schema={connection ?? {}} />
      )}
      {own && (
        <OwnSettings
          key={`own ${revision} ${Boolean(draft.many)}`}
          title={side === 'source' ? 'What is read' : 'Where it goes'}
          folded={side === 'source' && (connection !== null || !inline)}
          schema={own}
          value={settings}
          onChange={setSettings}
          problems={under(`config.${side}.config.`, problems)}
        />
      )}
      {side === 'destination' && draft.many && schema?.properties?.table && (
        <Field
          label="Table of each stream"
          hint="{stream} is the last part of its name, {schema} what is before it, {source} the source. Left empty, tables are named after their streams."
          placeholder="{stream}"
          maxLength={200}
          spellCheck={false}
          problem={problems.table_pattern}
          className={styles.connection!}
          value={draft.many.table_pattern ?? ''}
          onChange={(event) =>
            update((now) => ({ ...now, many: now.many && withPattern(now.many, 'table_pattern', event.target.value) }))
          }
        />
      )}
      <Test side={side} endpoint={endpoint} editor={editor} />
    </>
  )
}

interface OwnProps {
  title: string
  /** Most sources need none of them. */
  folded: boolean
  schema: Schema
  value: Fields
  onChange(value: Fields): void
  problems: Record<string, string>
}

/** What each pipeline chooses for itself, beside a saved connection too. */
function OwnSettings({ title, folded, schema, ...form }: OwnProps) {
  const names = Object.keys(schema.properties ?? {})
  const used = names.some((name) => form.value[name] !== undefined)
  const wrong = names.some((name) => Object.keys(form.problems).some((path) => path.startsWith(name)))
  const [open, setOpen] = useState(used)
  if (!folded)
    return (
      <fieldset className={styles.own}>
        <legend>{title}</legend>
        <SchemaForm flat schema={schema} {...form} />
      </fieldset>
    )
  return (
    <details className={formStyles.more} open={open || wrong} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}: settings for this pipeline</summary>
      <div className={styles.own}>
        <SchemaForm flat schema={schema} {...form} />
      </div>
    </details>
  )
}

interface ConnectionProps extends Pick<ChosenProps, 'side' | 'endpoint' | 'editor'> {
  connector: NonNullable<ReturnType<typeof connectorOf>>
  schema: object
}

/** Address and secrets, which only an inline connector has in the pipeline. */
function ConnectionSettings({ side, endpoint, editor, connector, schema }: ConnectionProps) {
  const { config, authentication } = endpoint
  const value = {
    config: isObject(config) ? config : {},
    ...(isObject(authentication) && { authentication }),
  } as ConnectorSettings
  function change({ config: settings, authentication: chosen }: ConnectorSettings) {
    editor.update((now) => {
      const empty = Object.keys(settings).length === 0
      const changed = setIn(now.config, [side, 'config'], empty ? undefined : settings)
      return { ...now, config: side === 'source' ? setIn(changed, [side, 'authentication'], chosen) : changed }
    })
  }
  return (
    <div className={styles.connection}>
      <ConnectorForm
        connector={{ ...connector, config_schema: schema as Record<string, unknown> }}
        value={value}
        onChange={change}
        problems={under(`config.${side}.`, editor.problems)}
      />
    </div>
  )
}

/** Whether it can be reached with these settings, in the words of the server. */
function Test({ side, endpoint, editor }: Pick<ChosenProps, 'side' | 'endpoint' | 'editor'>) {
  const { known, pipelineId, setProblems, setListed } = editor
  const may = useMay('connectors:write')
  const { stream: _, ...bare } = endpoint
  const key = JSON.stringify(bare)
  const check = useMutation({
    mutationFn: async (tested: string) => {
      const body = { [side]: JSON.parse(tested), ...(pipelineId !== null && { pipeline_id: pipelineId }) }
      return { tested, ...(await answer(api.POST('/api/connectors/check', { body }))) }
    },
    // Also after a failure: the step that follows then takes the name of a stream as it is typed.
    onSettled: (_result, _error, tested) => side === 'source' && setListed(tested),
    onError: (error) =>
      setProblems(
        Object.fromEntries(
          Object.entries(problemsOf(error, '').byPath).map(([path, problem]) => [`config.${path}`, problem]),
        ),
      ),
  })
  const missing =
    endpoint.name === undefined ? [] : missingSettings(settingsOf(connectorOf(known, side, endpoint)), endpoint.config)
  const result = check.data?.tested === key ? check.data : null
  const failed = check.variables === key ? check.error : null
  return (
    <div className={styles.test}>
      <div className={styles.testRow}>
        <Button busy={check.isPending} disabled={!may || missing.length > 0} onClick={() => check.mutate(key)}>
          {check.isPending ? 'Testing…' : 'Test connection'}
        </Button>
        {!may && <span className="faint">Your role may not test connections.</span>}
        {may && missing.length > 0 && <span className="faint">Still needed: {missing.join(', ')}</span>}
        {result && (
          <p role="status" className={result.success ? styles.good : styles.bad}>
            {result.success ? '● ' : '✕ '}
            {result.message}
          </p>
        )}
      </div>
      <ErrorNotice error={failed} />
    </div>
  )
}
