import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import table from '../../components/table.module.css'
import styles from './pipeline-page.module.css'
import type { Pipeline } from './pipeline-page.tsx'
import { schemaQuery } from './queries.ts'

interface Change {
  at: string
  run_id: string
  change: string
}

/** The columns as the last run left them in the destination, and how they came to be so. */
export function SchemaTab({ pipeline: { id } }: { pipeline: Pipeline }) {
  const schema = useQuery(schemaQuery(id))
  if (schema.error) return <ErrorNotice error={schema.error} onRetry={schema.refetch} />
  if (!schema.data) return <Skeleton rows={10} />
  const { columns, updated_at } = schema.data
  const all = (schema.data.changes as unknown as Change[]).toReversed()
  // The first run makes all columns, which says nothing about each of them.
  const first = all.at(-1)
  const changes = all.filter(({ run_id }) => run_id !== first?.run_id)
  if (columns.length === 0 && first === undefined)
    return (
      <Empty title="No columns are known yet">
        A run stores the columns of its destination here, with every change of them. Files of JSON lines have none.
      </Empty>
    )
  return (
    <div className={styles.columns}>
      <section className={styles.part} aria-labelledby="columns">
        <h2 id="columns">{columns.length} columns</h2>
        <table className={table.table}>
          <thead>
            <tr>
              <th>Name</th>
              <th>Type</th>
              <th className={table.wide}>In the destination</th>
              <th className={table.fit}>Changed</th>
            </tr>
          </thead>
          <tbody>
            {columns.map(({ name, type, native_type }) => {
              const last = changes.find(({ change }) => isAbout(change, name))
              return (
                <tr key={name}>
                  <td title={name}>
                    <code>{name}</code>
                  </td>
                  <td title={type}>
                    <code>{type}</code>
                  </td>
                  <td className={`${table.wide} soft`} title={native_type ?? undefined}>
                    {native_type ?? '–'}
                  </td>
                  <td className={table.fit}>
                    {last && (
                      <span className={styles.mark} title={last.change}>
                        {last.change.split(' ')[0]}
                      </span>
                    )}
                  </td>
                </tr>
              )
            })}
          </tbody>
        </table>
        <p className="faint">
          As of <Time at={updated_at} />
        </p>
      </section>
      <section className={styles.part} aria-labelledby="changes">
        <h2 id="changes">Changes</h2>
        <ul className={styles.history}>
          {changes.map(({ at, run_id, change }, index) => (
            <li key={`${run_id} ${change} ${index}`}>
              <span>{change}</span>
              <Link to="/runs/$id" params={{ id: run_id }}>
                <Time at={at} />
              </Link>
            </li>
          ))}
          {first && (
            <li>
              <span className="soft">
                {changes.length === 0 ? 'No change since the first run' : 'The first run made the table'}
              </span>
              <Link to="/runs/$id" params={{ id: first.run_id }}>
                <Time at={first.at} />
              </Link>
            </li>
          )}
        </ul>
      </section>
    </div>
  )
}

/** A change is a sentence such as `added column price decimal`. */
const isAbout = (change: string, name: string): boolean =>
  / column (.*)$/.exec(change)?.[1]?.startsWith(`${name} `) ?? false
