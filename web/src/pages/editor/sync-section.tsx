/** What is read in each run, how it is written, and what identifies and orders the rows. */
import schemas from 'virtual:pipeline-schemas'
import type { Schema } from '../../components/schema-form/schema.ts'
import formStyles from '../../components/schema-form/schema-form.module.css'
import { SchemaForm } from '../../components/schema-form/schema-form.tsx'
import { ChoiceList } from './choice-list.tsx'
import { ColumnInput, ColumnsInput } from './column-input.tsx'
import { columnsOf, isLoaded, targetName } from './columns.ts'
import { streamOf } from './draft.ts'
import { type Editor, under } from './editor.ts'
import { type Fields, isObject, setIn } from './fields.ts'
import { type Mode, type Write, writesFor } from './sync.ts'
import { useDescription } from './use-streams.ts'

const WRITES: Record<Write, { title: string; detail: string }> = {
  append: { title: 'Append', detail: 'Adds the rows to those that are there.' },
  replace: { title: 'Replace', detail: 'Swaps everything that is there for the new rows, at the end of the run.' },
  upsert: { title: 'Upsert', detail: 'Overwrites rows with the same primary key and adds the others.' },
}

export function SyncSection({ editor }: { editor: Editor }) {
  const { draft, update, sync, abilities, problems } = editor
  const stream = streamOf(draft)
  const { description } = useDescription(editor, stream)
  const columns = columnsOf(draft.config)
  const loaded = (description?.columns ?? []).map(({ name }) => name).filter((name) => isLoaded(columns, name))
  const upserts = abilities.write.includes('upsert')
  const keys = upserts ? (description?.primary_key ?? []).map((name) => targetName(columns, name)) : []
  const set = (name: string, value: unknown) =>
    update((now) => ({ ...now, config: setIn(now.config, ['sync', name], value) }))

  function setMode(mode: Mode) {
    update((now) => {
      const offered = {
        cursor_field: abilities.own_cursor ? undefined : description?.cursor_fields[0],
        primary_key: keys,
      }
      return { ...now, config: withMode(now.config, mode, offered) }
    })
  }
  function setWrite(write: Write) {
    update((now) => {
      const config = setIn(now.config, ['sync', 'write'], write)
      const offer = write === 'upsert' && sync.primary_key.length === 0 && keys.length > 0
      return { ...now, config: offer ? setIn(config, ['sync', 'primary_key'], keys) : config }
    })
  }
  const offered = writesFor(sync.mode, abilities)
  const writes = [...new Set([...offered, ...(abilities.write.includes(sync.write) ? [sync.write] : [])])]
  const many = draft.many !== null
  return (
    <>
      <ChoiceList<Mode>
        legend="Each run reads"
        value={sync.mode}
        onChange={setMode}
        options={[
          { value: 'full_refresh', title: 'Everything', detail: 'Full refresh: the whole stream, every time.' },
          {
            value: 'incremental',
            title: 'What is new',
            detail: abilities.incremental
              ? 'Incremental: only rows that are new or changed since the last run.'
              : 'This source cannot tell what is new.',
            disabled: !abilities.incremental && sync.mode !== 'incremental',
          },
        ]}
      />
      {sync.mode === 'incremental' && (
        <ColumnInput
          label="Cursor"
          hint={cursorHint(abilities.own_cursor, many)}
          optional={abilities.own_cursor || many}
          problem={problems['config.sync.cursor_field']}
          value={sync.cursor_field ?? ''}
          columns={(description?.columns ?? []).map(({ name }) => name)}
          offered={description?.cursor_fields ?? []}
          onChange={(value) => set('cursor_field', value === '' ? undefined : value)}
        />
      )}
      <ChoiceList<Write>
        legend="The rows are written by"
        value={sync.write}
        onChange={setWrite}
        options={writes.map((value) => ({ value, ...WRITES[value] }))}
      />
      {(sync.write === 'upsert' || sync.primary_key.length > 0 || keys.length > 0) && (
        <ColumnsInput
          label="Primary key"
          hint={
            many
              ? 'Left empty, it is taken from the description of each stream.'
              : 'The columns that identify a row, by their names in the destination.'
          }
          optional={sync.write !== 'upsert' || many}
          problem={problems['config.sync.primary_key']}
          value={sync.primary_key}
          columns={loaded.map((name) => targetName(columns, name))}
          offered={keys}
          onChange={(value) => set('primary_key', value.length === 0 ? undefined : value)}
        />
      )}
      <Advanced editor={editor} />
    </>
  )
}

function cursorHint(own: boolean, many: boolean): string {
  if (many) return 'Left empty, it is taken from the description of each stream.'
  return own
    ? 'This source keeps its position itself. Name a column only to read by that instead.'
    : 'The column that grows with every change: the next run reads rows with higher values.'
}

/** What only the other mode understands is taken away, and what the stream offers is filled in. */
function withMode(
  config: Fields,
  mode: Mode,
  { cursor_field, primary_key }: { cursor_field: string | undefined; primary_key: string[] },
): Fields {
  const given = isObject(config.sync) ? config.sync : {}
  const changes: [string, unknown][] =
    mode === 'full_refresh'
      ? [
          ['mode', undefined],
          ['cursor_field', undefined],
          ['lookback_seconds', undefined],
        ]
      : [
          ['mode', mode],
          ['cursor_field', given.cursor_field ?? cursor_field],
          ['primary_key', given.primary_key ?? (primary_key.length === 0 ? undefined : primary_key)],
          ['write', given.write === 'replace' ? undefined : given.write],
          ['allow_empty', undefined],
        ]
  return changes.reduce((changed, [name, value]) => setIn(changed, ['sync', name], value), config)
}

/** Everything else that a run can be told; most pipelines need none of it. */
function Advanced({ editor }: { editor: Editor }) {
  const { draft, update, sync, abilities, problems, revision } = editor
  const given = {
    sync: isObject(draft.config.sync) ? draft.config.sync : {},
    run: isObject(draft.config.run) ? draft.config.run : {},
  }
  const useful: Record<string, boolean> = {
    schema_change: true,
    lookback_seconds: sync.mode === 'incremental' && sync.write === 'upsert',
    allow_empty: sync.write === 'replace',
    on_error: abilities.quarantine,
    max_error_share: given.sync.on_error === 'quarantine',
  }
  const names = Object.keys(useful).filter((name) => useful[name] || given.sync[name] !== undefined)
  const parts = [
    ['sync', pick(schemas.sync, names)],
    ['run', schemas.run],
  ] as const
  const wrong = parts.some(([part]) => Object.keys(under(`config.${part}.`, problems)).length > 0)
  const set = names.filter((name) => given.sync[name] !== undefined).length + Object.keys(given.run).length
  return (
    <details className={formStyles.more} open={wrong || undefined}>
      <summary>Advanced settings{set > 0 && ` (${set} set)`}</summary>
      <div className={formStyles.form} key={revision}>
        {parts.map(([part, schema]) => (
          <SchemaForm
            key={part}
            schema={schema}
            value={given[part]}
            onChange={(value) =>
              update((now) => ({
                ...now,
                config: setIn(now.config, [part], Object.keys(value).length === 0 ? undefined : value),
              }))
            }
            problems={under(`config.${part}.`, problems)}
          />
        ))}
      </div>
    </details>
  )
}

function pick(schema: Schema, names: readonly string[]): Schema {
  const properties = Object.entries(schema.properties ?? {}).filter(([name]) => names.includes(name))
  return { ...schema, properties: Object.fromEntries(properties) }
}
