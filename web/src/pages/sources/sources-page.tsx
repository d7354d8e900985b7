/** Everything that people of the organization have written to read from: Python sources and manifests. */
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useMay } from '../../api/person.ts'
import button from '../../components/button.module.css'
import { Choices } from '../../components/choices.tsx'
import { Icon } from '../../components/icon.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import { Count, Time } from '../../components/quantities.tsx'
import table from '../../components/table.module.css'
import type { AuthoredItem } from './authored.ts'
import { sourcesQuery } from './queries.ts'
import type { SourcesSearch } from './routes.ts'
import { addressOf } from './source-link.ts'
import styles from './sources.module.css'

/** Streams in a row of the list. */
const SHOWN = 4

const KINDS = [
  [undefined, 'All'],
  ['python', 'Python'],
  ['yaml', 'Manifests'],
] as const

export function SourcesPage() {
  const search = useSearch({ from: '/frame/sources' })
  const sources = useQuery(sourcesQuery)
  const may = useMay('custom_sources:write')
  const found = sources.data?.filter((source) => matches(source, search))
  return (
    <>
      <PageHead
        title="Sources"
        lead="Sources that you write yourselves: Python in a sandbox, or an HTTP API described by a manifest."
      >
        {may && (
          <Link to="/sources/new" className={`${button.button} ${button.primary}`}>
            New source
          </Link>
        )}
      </PageHead>
      {sources.data && sources.data.length > 0 && <Filters />}
      {sources.isPending && <Skeleton rows={8} />}
      <ErrorNotice error={sources.error} onRetry={sources.refetch} />
      {sources.data?.length === 0 && <None may={may} />}
      {sources.data && sources.data.length > 0 && found?.length === 0 && (
        <Empty title="No source matches" action={<Link to="/sources">Remove all filters</Link>} />
      )}
      {found && found.length > 0 && <SourceTable sources={found} />}
    </>
  )
}

function None({ may }: { may: boolean }) {
  return (
    <Empty
      title="No sources of your own yet"
      action={
        may && (
          <Link
            to="/sources/new"
            search={{ template: 'greenhouse', language: 'python' }}
            className={`${button.button} ${button.primary}`}
          >
            Try an example
          </Link>
        )
      }
    >
      Where no connector fits, a few lines of Python or YAML read from any HTTP API. They are checked while you type and
      tried without saving.
    </Empty>
  )
}

function matches(source: AuthoredItem, { q = '', language }: SourcesSearch): boolean {
  if (language !== undefined && source.language !== language) return false
  const words = [source.name, source.source_name, source.description ?? '', ...source.streams].join(' ').toLowerCase()
  return words.includes(q.trim().toLowerCase())
}

function Filters() {
  const { q, language } = useSearch({ from: '/frame/sources' })
  const navigate = useNavigate({ from: '/sources' })
  return (
    <search className={styles.filters}>
      <label className={styles.find}>
        <Icon name="search" />
        <span className="visually-hidden">Find by name or stream</span>
        <input
          type="search"
          placeholder="Find by name or stream"
          value={q ?? ''}
          onChange={({ target }) =>
            navigate({
              search: ({ q: _, ...rest }) => (target.value ? { ...rest, q: target.value } : rest),
              replace: true,
            })
          }
        />
      </label>
      <Choices
        label="Kind"
        value={language}
        options={KINDS}
        link={(value) => ({ to: '/sources', search: { ...(q && { q }), ...(value && { language: value }) } })}
      />
    </search>
  )
}

function SourceTable({ sources }: { sources: readonly AuthoredItem[] }) {
  return (
    <table className={table.table}>
      <thead>
        <tr>
          <th>Name</th>
          <th className={`${table.fit} ${table.wide}`}>Kind</th>
          <th className={table.wide}>Streams</th>
          <th className={`${table.fit} ${table.wide} ${styles.figure}`}>Version</th>
          <th className={`${table.fit} ${table.wide} ${styles.figure}`}>Pipelines</th>
          <th className={`${table.fit} ${table.end}`}>Last change</th>
        </tr>
      </thead>
      <tbody>
        {sources.map((source) => (
          <tr key={source.id}>
            <td title={source.description ?? undefined} className={styles.nameCell}>
              <Link {...addressOf(source)} className={styles.name}>
                {source.name}
              </Link>{' '}
              <code className={`${table.wide} faint`}>{source.source_name}</code>
            </td>
            <td className={`${table.fit} ${table.wide} soft`}>
              {source.language === 'python' ? 'Python' : 'Manifest'}
            </td>
            <td className={`${table.wide} soft`} title={source.streams.join(', ')}>
              {source.stream_count === null ? (
                <span className="faint">from the server</span>
              ) : (
                <>
                  {source.streams.slice(0, SHOWN).join(', ')}
                  {source.stream_count > SHOWN && (
                    <span className="faint">
                      {' '}
                      and <Count value={source.stream_count - SHOWN} /> more
                    </span>
                  )}
                </>
              )}
            </td>
            <td className={`${table.fit} ${table.wide} ${styles.figure} number`}>{source.version}</td>
            <td className={`${table.fit} ${table.wide} ${styles.figure}`}>
              {source.pipeline_count === 0 ? (
                <span className="faint number">0</span>
              ) : (
                <Link {...addressOf(source)} search={{ tab: 'uses' }}>
                  <Count value={source.pipeline_count} />
                </Link>
              )}
            </td>
            <td className={`${table.fit} ${table.end}`}>
              <Time at={source.changed_at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
