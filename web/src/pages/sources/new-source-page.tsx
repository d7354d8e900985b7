/** A new source: first what to start from, then the editor. */
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { Field } from '../../components/field.tsx'
import { Empty, ErrorNotice } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import type { SourceLanguage } from './authored.ts'
import { type Draft, useDraft } from './draft.ts'
import { DraftNotice } from './draft-notice.tsx'
import { MOD } from './keys.ts'
import { LeaveGuard } from './leave-guard.tsx'
import { addressOf } from './source-link.ts'
import styles from './sources.module.css'
import { BLANK, findTemplate, templates } from './templates.ts'
import { isChanged, titleOf, useSave } from './use-save.ts'
import { useSaveKey } from './use-save-key.ts'
import { useValidation } from './use-validation.ts'
import { Workspace } from './workspace.tsx'

export function NewSourcePage() {
  const { template, language = 'python' } = useSearch({ from: '/frame/sources/new' })
  const may = useMay('custom_sources:write')
  if (!may)
    return (
      <>
        <PageHead title="New source" trail={[['Sources', { to: '/sources' }]]} here="New" />
        <Empty title="Your role may not write sources" action={<Link to="/sources">See the sources</Link>}>
          An admin of the organization can change that.
        </Empty>
      </>
    )
  const found = findTemplate(language, template)
  if (template === undefined || (template !== 'blank' && !found)) return <Choose />
  return <NewSource key={`${language} ${template}`} language={language} template={template} code={found?.code} />
}

const LANGUAGES = [
  ['python', 'Python', 'One class with three methods. It can read anything that speaks HTTP.'],
  ['yaml', 'Manifest', 'An HTTP API described in YAML, in the form of Airbyte’s low-code manifests.'],
] as const

function Choose() {
  return (
    <>
      <PageHead
        title="New source"
        trail={[['Sources', { to: '/sources' }]]}
        here="New"
        lead="Start from something that works. Everything in it can be changed."
      />
      <div className={styles.languages}>
        {LANGUAGES.map(([language, words, about]) => (
          <section key={language} aria-labelledby={`from-${language}`}>
            <h2 id={`from-${language}`}>{words}</h2>
            <p className="soft">{about}</p>
            <ul className={styles.templates}>
              {templates
                .filter((template) => template.language === language)
                .map(({ id, about: description }) => (
                  <li key={id}>
                    <Link to="/sources/new" search={{ template: id, language }}>
                      {titleOf(id)}
                    </Link>
                    <p className="soft">{description}</p>
                  </li>
                ))}
              <li>
                <Link to="/sources/new" search={{ template: 'blank', language }}>
                  {language === 'python' ? 'Empty class' : 'Paste a manifest'}
                </Link>
                <p className="soft">
                  {language === 'python'
                    ? 'The three methods with three records, to fill in.'
                    : 'Starts with one stream; replace it with yours.'}
                </p>
              </li>
            </ul>
          </section>
        ))}
      </div>
    </>
  )
}

interface NewSourceProps {
  language: SourceLanguage
  template: string
  code: string | undefined
}

function NewSource({ language, template, code }: NewSourceProps) {
  const suggested = template === 'blank' ? '' : template.replaceAll('-', '_')
  const start = useRef<Draft>({
    name: titleOf(suggested),
    source_name: suggested,
    description: '',
    code: code ?? BLANK[language],
    config: {},
  }).current
  const state = useDraft(`new.${language}.${template}`, start)
  const { draft, change, settle } = state
  const validation = useValidation(language, draft.code, true)
  const navigate = useNavigate()
  const done = useRef(false)
  const save = useSave(language, null, (id) => {
    done.current = true
    settle(start)
    void navigate({ ...addressOf({ id, language }), search: {}, replace: true })
  })
  useFollowName(validation.lastValid?.source_name ?? null, draft, start, change)
  const keep = () => !save.isPending && save.mutate(draft)
  useSaveKey(keep)
  return (
    <div className={styles.editorPage} data-wide>
      <PageHead
        title={language === 'python' ? 'New Python source' : 'New manifest'}
        trail={[
          ['Sources', { to: '/sources' }],
          ['New', { to: '/sources/new' }],
        ]}
        here={language === 'python' ? 'Python' : 'Manifest'}
      >
        <Button look="primary" busy={save.isPending} onClick={keep} aria-keyshortcuts="Control+S Meta+S">
          Create source <kbd>{MOD}S</kbd>
        </Button>
      </PageHead>
      <div className={styles.names}>
        <Field
          label="Name"
          maxLength={200}
          placeholder={titleOf(draft.source_name)}
          value={draft.name}
          onChange={(event) => change({ name: event.target.value })}
        />
        <Field
          label="Source name"
          maxLength={100}
          spellCheck={false}
          autoComplete="off"
          value={draft.source_name}
          hint="Pipelines refer to it by this name. It cannot be changed later."
          onChange={(event) => change({ source_name: event.target.value })}
        />
      </div>
      <DraftNotice at={state.restoredAt} shown={isChanged(draft, start)} onDiscard={() => settle(start)} />
      <ErrorNotice error={save.error} />
      <Workspace language={language} draft={state} validation={validation} may onSave={keep} onTrial={() => {}} />
      <LeaveGuard isDirty={() => !done.current && isChanged(draft, start)} onDiscard={() => settle(start)} />
    </div>
  )
}

/** The name that the code gives itself, as long as the person has not chosen another. */
function useFollowName(named: string | null, draft: Draft, start: Draft, change: (part: Partial<Draft>) => void) {
  const followed = useRef(start.source_name)
  const { name, source_name } = draft
  useEffect(() => {
    if (named === null || named === followed.current) return
    const before = followed.current
    followed.current = named
    if (source_name === before)
      change({ source_name: named, ...(name === titleOf(before) && { name: titleOf(named) }) })
  }, [named, name, source_name, change])
}
