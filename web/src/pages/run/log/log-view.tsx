import { useEffect, useState } from 'react'
import { ErrorNotice, Skeleton } from '../../../components/notice.tsx'
import type { Level } from './log-lines.ts'
import { LogRows } from './log-rows.tsx'
import { LogTools } from './log-tools.tsx'
import styles from './log-view.module.css'
import { useFiltered } from './use-filtered.ts'
import { useFind } from './use-find.ts'
import { useLog } from './use-log.ts'

/** What of a log is shown; part of the address. */
export interface LogSearch {
  q?: string
  level?: Level
  /** The line to begin at; without it, the end. */
  line?: number
}

/** Where lines are longer than the screen, they wrap until the reader says otherwise. */
const NARROW = '(max-width: 699px)'

interface Props {
  id: string
  over: boolean
  search: LogSearch
  onSearch(change: Partial<Record<keyof LogSearch, string | number | undefined>>): void
}

/** The log of a run. It opens at its end and follows until the reader scrolls up; only visible lines are in the page. */
export function LogView({ id, over, search, onSearch }: Props) {
  const log = useLog(id, over)
  const filtered = useFiltered(id, search.level, log.lines)
  const find = useFind(id, search.q ?? '', log.lines.last)
  const [wrap, setWrap] = useState(() => matchMedia(NARROW).matches)
  const [following, setFollowing] = useState(search.line === undefined)
  const hit = find.hits[find.at]
  const [target, setTarget] = useState({ number: search.line, turn: 0 })
  useEffect(() => {
    if (hit !== undefined) setTarget({ number: hit, turn: find.steps })
  }, [hit, find.steps])
  if (log.error) return <ErrorNotice error={log.error} onRetry={log.retry} />
  return (
    <div className={styles.view}>
      <LogTools
        id={id}
        find={find}
        search={search}
        onSearch={onSearch}
        wrap={wrap}
        onWrap={setWrap}
        following={following}
        onFollow={() => {
          setTarget({ number: undefined, turn: 0 })
          setFollowing(true)
        }}
        over={over}
      />
      <ErrorNotice error={find.error ?? filtered?.error} />
      {!log.opened || filtered?.pending ? (
        <div className={styles.log}>
          <Skeleton rows={12} height={20} />
        </div>
      ) : (
        <LogRows
          rows={filtered ?? log.lines}
          last={log.lines.last}
          onShow={filtered ? undefined : log.show}
          wrap={wrap}
          following={following}
          onFollowing={setFollowing}
          target={target}
          q={search.q ?? ''}
          none={search.level ? 'No line has this level.' : over ? 'This run wrote no log.' : 'Nothing is logged yet.'}
          onStep={find.step}
        />
      )}
      {filtered?.more && <p className={styles.note}>Only the last {filtered.rows} lines of this level are shown.</p>}
    </div>
  )
}
