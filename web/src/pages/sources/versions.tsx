/** The versions of a source, what changed between them, and the way back to one. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { lazy, Suspense, useState } from 'react'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import { type AuthoredSource, saveSource } from './authored.ts'
import { versionQuery, versionsQuery } from './queries.ts'
import { addressOf } from './source-link.ts'
import styles from './versions.module.css'

const CodeEditor = lazy(() => import('../../components/code-editor/code-editor.tsx'))
const VersionDiff = lazy(() => import('./version-diff.tsx'))

interface Props {
  source: AuthoredSource
  /** What is in the editor. */
  code: string
  wanted: number | undefined
  may: boolean
  onRestored(code: string): void
}

export function Versions({ source, code, wanted, may, onRestored }: Props) {
  const { language, id } = source
  const versions = useQuery(versionsQuery(language, id))
  if (versions.error) return <ErrorNotice error={versions.error} onRetry={versions.refetch} />
  if (!versions.data) return <Skeleton rows={6} />
  const newest = versions.data[0]?.version ?? 1
  const unsaved = code !== source.code
  const chosen = wanted ?? (unsaved || newest === 1 ? newest : newest - 1)
  return (
    <div className={styles.versions}>
      <nav aria-label="Versions" className={styles.list}>
        {versions.data.map(({ version, created_at, created_by_name }) => (
          <Link
            key={version}
            {...addressOf(source)}
            search={{ tab: 'versions', version }}
            replace
            className={styles.item}
            aria-current={version === chosen ? 'true' : undefined}
          >
            Version {version}
            {version === newest && ', current'}
            <span className="soft">
              <Time at={created_at} /> {created_by_name && `by ${created_by_name}`}
            </span>
          </Link>
        ))}
      </nav>
      <Comparison {...{ source, code, chosen, newest, may, onRestored }} key={chosen} />
    </div>
  )
}

interface ComparisonProps extends Omit<Props, 'wanted'> {
  chosen: number
  newest: number
}

function Comparison({ source, code, chosen, newest, may, onRestored }: ComparisonProps) {
  const { language, id } = source
  const unsaved = code !== source.code
  // The current version beside itself would say nothing: what it changed is shown instead.
  const shown = chosen === newest && !unsaved && newest > 1 ? chosen - 1 : chosen
  const before = useQuery(versionQuery(language, id, shown))
  const after = unsaved ? 'the text in the editor' : `version ${newest}`
  if (before.error) return <ErrorNotice error={before.error} onRetry={before.refetch} />
  return (
    <section className={styles.compare} aria-label="Difference">
      <div className={styles.compareHead}>
        <p className="soft">
          {shown === newest && !unsaved
            ? `Version ${shown} is the only one`
            : before.data === code
              ? `Version ${shown} is the same as ${after}`
              : `What changed from version ${shown} to ${after}`}
        </p>
        {may && before.data !== undefined && before.data !== source.code && (
          <Restore {...{ source, version: shown, code: before.data, unsaved, onRestored }} />
        )}
      </div>
      {before.data === undefined ? (
        <Skeleton rows={12} height={20} />
      ) : (
        <Suspense fallback={<Skeleton rows={12} height={20} />}>
          {before.data === code ? (
            <div className={styles.same}>
              <CodeEditor language={language} label={`Version ${shown}`} value={code} readOnly />
            </div>
          ) : (
            <VersionDiff language={language} before={before.data} after={code} />
          )}
        </Suspense>
      )}
    </section>
  )
}

interface RestoreProps {
  source: AuthoredSource
  version: number
  code: string
  unsaved: boolean
  onRestored(code: string): void
}

/** An old text as a new version: nothing that was saved is lost by it. */
function Restore({ source, version, code, unsaved, onRestored }: RestoreProps) {
  const [asked, setAsked] = useState(false)
  const queries = useQueryClient()
  const navigate = useNavigate()
  const { language, id, name, source_name, description } = source
  const restore = useMutation({
    mutationFn: () => saveSource(language, id, { name, source_name, description, code }),
    onSuccess: async () => {
      onRestored(code)
      await queries.invalidateQueries({ queryKey: ['sources'] })
      await navigate({ ...addressOf(source), search: {} })
    },
  })
  return (
    <>
      <Button busy={restore.isPending} onClick={() => (unsaved ? setAsked(true) : restore.mutate())}>
        Restore version {version}
      </Button>
      {!asked && <ErrorNotice error={restore.error} />}
      {asked && (
        <Confirm
          title={`Restore version ${version}`}
          action="Replace my changes"
          onConfirm={() => restore.mutate()}
          onClose={() => setAsked(false)}
          busy={restore.isPending}
          error={restore.error}
        >
          <p>The editor has changes that are not saved. The restored version takes their place.</p>
        </Confirm>
      )}
    </>
  )
}
