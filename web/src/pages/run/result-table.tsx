import table from '../../components/table.module.css'
import type { Result } from './queries.ts'
import styles from './result-table.module.css'

/** Rows of an output or of a query, with the type under each name. */
export function ResultTable({ result, label }: { result: Result; label: string }) {
  if (result.columns.length === 0) return <p className="faint">There are no columns.</p>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section className={styles.box} tabIndex={0} aria-label={label}>
      <table className={`${table.table} ${styles.table}`}>
        <thead>
          <tr>
            <th className={styles.row}>#</th>
            {result.columns.map(({ name, type }, index) => (
              <th key={index} className={isNumber(type) ? styles.number : undefined}>
                {name}
                <span className={styles.type}>{type}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {result.rows.map((row, index) => (
            <tr key={index}>
              <td className={styles.row}>{index + 1}</td>
              {row.map((value, column) => (
                <Cell key={column} value={value} numeric={isNumber(result.columns[column]!.type)} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {result.rows.length === 0 && <p className={styles.none}>No rows.</p>}
    </section>
  )
}

/** A title of megabytes would freeze the page. */
const LONGEST_TITLE = 2000

function Cell({ value, numeric }: { value: unknown; numeric: boolean }) {
  if (value === null || value === undefined)
    return (
      <td className={numeric ? styles.number : undefined}>
        <span className="faint">null</span>
      </td>
    )
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  return (
    <td
      className={numeric ? styles.number : undefined}
      title={text.length > 24 ? text.slice(0, LONGEST_TITLE) : undefined}
    >
      {text.slice(0, LONGEST_TITLE)}
    </td>
  )
}

const isNumber = (type: string) => /^(u?int|float|double|decimal)/.test(type)
