/** One source: its code with a preview, its versions, where it is used, and its name. */
import { useMutation, useQuery } from '@tanstack/react-query'
import { Link, useParams, useSearch } from '@tanstack/react-router'
import { type RefObject, useCallback, useRef } from 'react'
import { useMay } from '../../api/person.ts'
import button from '../../components/button.module.css'
import { Button } from '../../components/button.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import { Time } from '../../components/quantities.tsx'
import { Tabs } from '../../components/tabs.tsx'
import { type AuthoredSource, checkSource, type SourceLanguage, type Trial } from './authored.ts'
import { Details } from './details.tsx'
import { type Draft, useDraft } from './draft.ts'
import { DraftNotice } from './draft-notice.tsx'
import { MOD } from './keys.ts'
import { LeaveGuard } from './leave-guard.tsx'
import { sourceQuery, sourceUsesQuery, versionsQuery } from './queries.ts'
import type { SourceSearch, SourceTab } from './routes.ts'
import { addressOf } from './source-link.ts'
import styles from './sources.module.css'
import { isChanged, useSave } from './use-save.ts'
import { useSaveKey } from './use-save-key.ts'
import { useValidation } from './use-validation.ts'
import { Uses } from './uses.tsx'
import { Versions } from './versions.tsx'
import { Workspace } from './workspace.tsx'

export function PythonSourcePage() {
  const { id } = useParams({ from: '/frame/sources/$id' })
  return <SourcePage key={id} language="python" id={id} search={useSearch({ from: '/frame/sources/$id' })} />
}

export function ManifestPage() {
  const { id } = useParams({ from: '/frame/sources/manifests/$id' })
  return <SourcePage key={id} language="yaml" id={id} search={useSearch({ from: '/frame/sources/manifests/$id' })} />
}

function SourcePage({ language, id, search }: { language: SourceLanguage; id: string; search: SourceSearch }) {
  const source = useQuery(sourceQuery(language, id))
  if (source.error) return <ErrorNotice error={source.error} onRetry={source.refetch} />
  if (!source.data) return <Skeleton rows={14} />
  return <OpenSource source={source.data} search={search} />
}

const TABS = { code: undefined, versions: 'versions', uses: 'uses', details: 'details' } as const

function OpenSource({ source, search }: { source: AuthoredSource; search: SourceSearch }) {
  const { language, id } = source
  const may = useMay('custom_sources:write')
  const saved = toDraft(source)
  const state = useDraft(`${language}.${id}`, saved)
  const { draft, settle } = state
  const changed = isChanged(draft, saved)
  const validation = useValidation(language, draft.code, may)
  const versions = useQuery(versionsQuery(language, id))
  const uses = useQuery(sourceUsesQuery(language, id))
  const trial = useRef<Trial | null>(null)
  const keepTrial = useCallback((given: Trial) => {
    trial.current = given
  }, [])
  const save = useSave(language, source, (_, settled) => settle({ ...settled, config: draft.config }))
  const keep = () => may && !save.isPending && changed && save.mutate(draft)
  useSaveKey(keep)
  const tab = search.tab ?? 'code'
  return (
    <div className={styles.editorPage} data-wide>
      <PageHead
        title={source.name}
        trail={[['Sources', { to: '/sources' }]]}
        lead={<Lead source={source} versions={versions.data?.length} />}
      >
        <p role="status" className={styles.says}>
          {save.isPending
            ? 'Saving…'
            : changed
              ? 'Not saved'
              : save.isSuccess
                ? `Saved as version ${versions.data?.length ?? ''}`
                : ''}
        </p>
        {may && <Check id={id} trial={trial} />}
        {may && (
          <Link
            to="/pipelines/new"
            search={{ source: source.source_name }}
            className={`${button.button} ${button.plain}`}
          >
            New pipeline
          </Link>
        )}
        {may && (
          <Button look="primary" busy={save.isPending} disabled={!changed} onClick={keep}>
            Save <kbd>{MOD}S</kbd>
          </Button>
        )}
      </PageHead>
      {!may && <p className="soft">Your role may read sources, but not change or preview them.</p>}
      <DraftNotice at={state.restoredAt} shown={changed} onDiscard={() => settle(saved)} />
      <ErrorNotice error={save.error} />
      <Tabs<keyof typeof TABS>
        label="Parts of the source"
        value={tab}
        options={[
          ['code', language === 'python' ? 'Code' : 'Manifest'],
          ['versions', <Counted key="v" words="Versions" count={versions.data?.length} />],
          ['uses', <Counted key="u" words="Used by" count={uses.data?.length} />],
          ['details', 'Details'],
        ]}
        link={(value) => ({ ...addressOf(source), search: TABS[value] ? { tab: TABS[value] as SourceTab } : {} })}
      />
      {/* Hidden, not removed: what was undone, previewed and typed into the form is still there. */}
      <div className={styles.part} hidden={tab !== 'code'}>
        <Workspace {...{ language, draft: state, validation, may }} onSave={keep} onTrial={keepTrial} />
      </div>
      {tab === 'versions' && (
        <Versions
          {...{ source, code: draft.code, wanted: search.version, may }}
          onRestored={(code) => settle({ ...draft, code })}
        />
      )}
      {tab === 'uses' && <Uses source={source} uses={uses} />}
      {tab === 'details' && <Details {...{ source, state, may, used: uses.data?.length ?? 0 }} />}
      <LeaveGuard isDirty={() => changed && !save.isPending} onDiscard={() => settle(saved)} />
    </div>
  )
}

function toDraft({ name, source_name, description, code }: AuthoredSource): Draft {
  return { name, source_name, description: description ?? '', code, config: {} }
}

function Lead({ source, versions }: { source: AuthoredSource; versions: number | undefined }) {
  return (
    <>
      <code>{source.source_name}</code> · {source.language === 'python' ? 'Python' : 'manifest'}
      {versions !== undefined && ` · version ${versions}`} · changed{' '}
      <Time at={source.updated_at ?? source.created_at} />
    </>
  )
}

function Counted({ words, count }: { words: string; count: number | undefined }) {
  return (
    <>
      {words} {count !== undefined && <span className="faint number">{count}</span>}
    </>
  )
}

interface CheckProps {
  id: string
  trial: RefObject<Trial | null>
}

function Check({ id, trial }: CheckProps) {
  const check = useMutation({ mutationFn: () => checkSource(id, trial.current!) })
  return (
    <>
      <span role="status" className={`${styles.says} ${check.data?.success ? styles.good : styles.bad}`}>
        {capitalized(check.error ? check.error.message : (check.data?.message ?? ''))}
      </span>
      <Button
        busy={check.isPending}
        onClick={() => check.mutate()}
        title="Checks the connection with the text as it stands and the settings of the preview"
      >
        {check.isPending ? 'Checking…' : 'Check connection'}
      </Button>
    </>
  )
}

function capitalized(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1)
}
