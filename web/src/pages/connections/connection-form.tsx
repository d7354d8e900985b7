/** The form of a saved connector, new or stored: its name, its settings, a test of what is typed. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { answer, api } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { problemsOf } from '../../api/problems.ts'
import type { Connector, ConnectorKind } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Field } from '../../components/field.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import { hasMask } from '../../components/schema-form/hide-secrets.ts'
import styles from './connections.module.css'
import { ConnectorForm, type ConnectorSettings, hideConnectorSecrets } from './connector-form.tsx'

interface Stored {
  id: string
  name: string
  description: string | null
  /** With masks for secrets. */
  settings: ConnectorSettings
}

interface Props {
  kind: ConnectorKind
  connector: Connector
  stored: Stored | null
}

export function ConnectionForm({ kind, connector, stored }: Props) {
  const [name, setName] = useState(stored?.name ?? connector.display_name)
  const [description, setDescription] = useState(stored?.description ?? '')
  const [settings, setSettings] = useState<ConnectorSettings>(stored?.settings ?? { config: {} })
  const may = useMay('connectors:write')
  const navigate = useNavigate()
  const queries = useQueryClient()
  const save = useMutation({
    mutationFn: () => {
      const config = kind === 'source' ? { ...settings } : settings.config
      const body = { name, description: description.trim() || null, config }
      return saveConnector(kind, connector.name, stored?.id ?? null, body)
    },
    onSuccess: async ({ id }) => {
      setSettings(hideConnectorSecrets(connector, settings))
      await queries.invalidateQueries({ queryKey: ['saved', kind] })
      if (!stored) await navigate({ to: '/connections/$kind/$id', params: { kind, id }, replace: true })
    },
  })
  const changed = !stored || JSON.stringify(settings) !== JSON.stringify(stored.settings)
  // What is stored and hidden is known to the server alone, so a changed connection with secrets is saved before its test.
  const saveFirst = stored !== null && changed && hasMask(settings)
  const check = useMutation({
    mutationFn: async () => {
      if (saveFirst) await save.mutateAsync()
      return checkConnector(kind, connector.name, stored && (saveFirst || !changed) ? stored.id : settings)
    },
  })
  const problems = readProblems(kind, save.error ?? check.error)
  function submit(event: FormEvent) {
    event.preventDefault()
    check.reset()
    save.mutate()
  }
  return (
    <form onSubmit={submit} noValidate={false}>
      <fieldset className={styles.form} disabled={!may}>
        {!may && <p className="soft">Your role may look at connections; a member’s may also set them up.</p>}
        <Field label="Name" required maxLength={200} value={name} onChange={(event) => setName(event.target.value)} />
        <Field
          label="Description"
          maxLength={1000}
          value={description}
          onChange={(event) => setDescription(event.target.value)}
        />
        <ConnectorForm connector={connector} value={settings} onChange={setSettings} problems={problems.byPath} />
        {problems.rest && <ErrorNotice error={save.error ?? check.error} />}
        {check.data && (
          <p role="status" className={`${styles.outcome} ${check.data.success ? styles.good : styles.bad}`}>
            {check.data.message}
          </p>
        )}
        {may && (
          <div className={styles.actions}>
            <Button look="primary" type="submit" busy={save.isPending}>
              {stored ? 'Save changes' : 'Save connection'}
            </Button>
            <Button busy={check.isPending} onClick={() => check.mutate()}>
              {check.isPending ? 'Testing…' : saveFirst ? 'Save and test' : 'Test'}
            </Button>
            {save.isSuccess && !changed && (
              <span role="status" className="soft">
                Saved
              </span>
            )}
          </div>
        )}
      </fieldset>
    </form>
  )
}

/** Paths as the form knows them: `config.port`, `authentication.params.token`. */
function readProblems(kind: ConnectorKind, error: unknown): { byPath: Record<string, string>; rest: boolean } {
  const saved = problemsOf(error, kind === 'source' ? 'config.' : '')
  const tested = problemsOf(error, `${kind}.`)
  const byPath = Object.keys(tested.byPath).length > 0 ? tested.byPath : saved.byPath
  const known = Object.keys(byPath).filter((path) => /^(config|authentication)\b/.test(path))
  return {
    byPath: Object.fromEntries(known.map((path) => [path, byPath[path]!])),
    rest: Boolean(error) && known.length === 0,
  }
}

interface Body {
  name: string
  description: string | null
  config: Record<string, unknown>
}

function saveConnector(
  kind: ConnectorKind,
  connector_name: string,
  id: string | null,
  body: Body,
): Promise<{ id: string }> {
  const created = { ...body, connector_name }
  if (kind === 'source')
    return id === null
      ? answer(api.POST('/api/saved/sources', { body: created }))
      : answer(api.PUT('/api/saved/sources/{id}', { params: { path: { id } }, body }))
  return id === null
    ? answer(api.POST('/api/saved/destinations', { body: created }))
    : answer(api.PUT('/api/saved/destinations/{id}', { params: { path: { id } }, body }))
}

/** Tests a stored connector by its id, or what is typed. */
function checkConnector(kind: ConnectorKind, name: string, what: string | ConnectorSettings) {
  const endpoint = typeof what === 'string' ? { saved_connector_id: what } : { name, ...what }
  return answer(
    api.POST('/api/connectors/check', { body: kind === 'source' ? { source: endpoint } : { destination: endpoint } }),
  )
}
