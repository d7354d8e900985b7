import { useState } from 'react'
import { Button } from '../../components/button.tsx'
import fieldStyles from '../../components/field.module.css'
import table from '../../components/table.module.css'
import styles from './column-table.module.css'
import { columnsOf, rowsOf, withHash, withLater, withLoaded, withRename } from './columns.ts'
import type { Editor } from './editor.ts'
import type { Fields } from './fields.ts'
import type { DescribedColumn } from './use-streams.ts'

/** Which columns are loaded, under which names, and which as a hash instead of their value. */
export function ColumnTable({ editor, columns }: { editor: Editor; columns: DescribedColumn[] }) {
  const { draft, update, problems } = editor
  const settings = columnsOf(draft.config)
  const names = columns.map((column) => column.name)
  const rows = rowsOf(settings, names)
  const change = (next: (config: Fields) => Fields) => update((now) => ({ ...now, config: next(now.config) }))
  const all = rows.every((row) => row.loaded)
  const problem = ['include', 'exclude', 'rename', 'hash']
    .map((name) => problems[`config.columns.${name}`])
    .find(Boolean)
  return (
    <>
      {rows.length > 0 && (
        <div className={styles.scroll}>
          <table className={`${table.table} ${styles.table}`}>
            <thead>
              <tr>
                <th className={table.fit}>
                  <input
                    type="checkbox"
                    aria-label="Load all columns"
                    checked={all}
                    onChange={() =>
                      change((config) =>
                        withLoaded(
                          config,
                          rows.map((row) => row.name),
                          !all,
                        ),
                      )
                    }
                  />
                </th>
                <th>Column</th>
                <th>Type</th>
                <th>Name in the destination</th>
                <th className={`${table.fit} ${table.end}`}>
                  <abbr title="The SHA-256 of the value is loaded instead of the value">Hash</abbr>
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map(({ name, loaded, rename, hashed }) => {
                const column = columns.find((found) => found.name === name)
                return (
                  <tr key={name} className={loaded ? undefined : styles.left}>
                    <td className={table.fit}>
                      <input
                        type="checkbox"
                        aria-label={`Load ${name}`}
                        checked={loaded}
                        onChange={() => change((config) => withLoaded(config, [name], !loaded))}
                      />
                    </td>
                    <td title={name}>
                      <code>{name}</code>
                    </td>
                    <td className="soft" title={column?.native_type ?? undefined}>
                      {column?.type ?? (columns.length > 0 ? 'not in this stream' : '')}
                    </td>
                    <td>
                      <input
                        className={`${fieldStyles.input} ${styles.rename}`}
                        aria-label={`Name of ${name} in the destination`}
                        placeholder={name}
                        disabled={!loaded}
                        spellCheck={false}
                        autoComplete="off"
                        value={rename}
                        onChange={(event) => change((config) => withRename(config, name, event.target.value))}
                      />
                    </td>
                    <td className={`${table.fit} ${table.end}`}>
                      <input
                        type="checkbox"
                        aria-label={`Hash ${name}`}
                        disabled={!loaded}
                        checked={hashed}
                        onChange={() => change((config) => withHash(config, name, !hashed))}
                      />
                    </td>
                  </tr>
                )
              })}
            </tbody>
          </table>
        </div>
      )}
      {problem && <p className={fieldStyles.problem}>{problem}</p>}
      <div className={styles.below}>
        <label>
          Columns that the source gets later{' '}
          <select
            className={`${fieldStyles.input} ${styles.later}`}
            value={settings.include === null ? 'load' : 'leave'}
            onChange={(event) => change((config) => withLater(config, event.target.value === 'load', names))}
          >
            <option value="load">are loaded too</option>
            <option value="leave" disabled={rows.every((row) => !row.loaded)}>
              are left out
            </option>
          </select>
        </label>
        <AddColumn
          onAdd={(name) => change((config) => withLoaded(config, [name], false))}
          known={rows.map((row) => row.name)}
        />
      </div>
    </>
  )
}

/** For a column that no description names. */
function AddColumn({ onAdd, known }: { onAdd(name: string): void; known: string[] }) {
  const [name, setName] = useState('')
  const fresh = name.trim() !== '' && !known.includes(name.trim())
  return (
    <form
      className={styles.add}
      onSubmit={(event) => {
        event.preventDefault()
        event.stopPropagation()
        if (!fresh) return
        onAdd(name.trim())
        setName('')
      }}
    >
      <input
        className={fieldStyles.input}
        aria-label="Another column, by its name"
        placeholder="Another column, by its name"
        spellCheck={false}
        autoComplete="off"
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <Button type="submit" disabled={!fresh}>
        Leave it out
      </Button>
    </form>
  )
}
