/** Which streams are read, and for a single one which columns. */
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { Field } from '../../components/field.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { ColumnTable } from './column-table.tsx'
import { sideOf, streamOf, withStreams } from './draft.ts'
import type { Editor } from './editor.ts'
import { StreamList } from './stream-list.tsx'
import styles from './streams-section.module.css'
import { useDescription, useStreams } from './use-streams.ts'

export function StreamsSection({ editor }: { editor: Editor }) {
  const { draft, update } = editor
  const streams = useStreams(editor)
  const chosen = draft.many?.streams ?? [streamOf(draft)].filter((stream) => stream !== null)
  const choose = (names: string[]) => update((now) => withStreams(now, names))
  return (
    <>
      {streams.names ? (
        <StreamList
          names={streams.names}
          descriptions={streams.descriptions}
          chosen={chosen}
          onChoose={choose}
          single={editor.pipelineId !== null}
        />
      ) : (
        <Unlisted editor={editor} {...streams} />
      )}
      {streams.problem && (
        <p className={styles.problem} role="status">
          ✕ {streams.problem}
        </p>
      )}
      <ErrorNotice error={streams.error} />
      {!draft.many && streamOf(draft) !== null && <Columns editor={editor} />}
      {draft.many && (
        <p className="soft">
          Each of the {draft.many.streams.length} streams becomes a pipeline with all of its columns. Choose a single
          stream to pick, rename or hash columns.
        </p>
      )}
    </>
  )
}

/** The names are not known yet, or cannot be had: a stream can still be named. */
function Unlisted({ editor, loading }: { editor: Editor; loading: boolean }) {
  const { draft, update, setListed, problems } = editor
  const may = useMay('connectors:write')
  const { stream: _, ...bare } = sideOf(draft, 'source') ?? {}
  if (loading) return <Skeleton rows={4} height={28} />
  return (
    <div className={styles.unlisted}>
      <Field
        label="Stream"
        hint="The name of a table, file or endpoint, as the source calls it"
        problem={problems['config.source.stream']}
        spellCheck={false}
        autoComplete="off"
        value={streamOf(draft) ?? ''}
        onChange={(event) => update((now) => withStreams(now, event.target.value === '' ? [] : [event.target.value]))}
      />
      {may && <Button onClick={() => setListed(JSON.stringify(bare))}>List streams</Button>}
    </div>
  )
}

function Columns({ editor }: { editor: Editor }) {
  const { draft, known } = editor
  const stream = streamOf(draft)!
  const { description, loading, sampled, read, reading, error } = useDescription(editor, stream)
  const columns = description?.columns ?? sampled
  return (
    <div className={styles.columns}>
      <h3>Columns of {stream}</h3>
      {loading ? (
        <Skeleton rows={5} height={28} />
      ) : (
        <>
          {columns === null && (
            <div className={styles.unlisted}>
              <p className="soft">Only reading shows which columns there are.</p>
              <Button busy={reading} onClick={read}>
                {reading ? 'Reading…' : 'Read a few records'}
              </Button>
            </div>
          )}
          <ErrorNotice error={error} />
          <ColumnTable editor={editor} columns={columns ?? []} key={`${stream} ${known.catalogue.source.length}`} />
        </>
      )}
    </div>
  )
}
