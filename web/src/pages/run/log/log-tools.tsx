import { useMutation } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { answer, api } from '../../../api/client.ts'
import { saveFile } from '../../../api/save-file.ts'
import { Button } from '../../../components/button.tsx'
import { Icon } from '../../../components/icon.tsx'
import { ErrorNotice } from '../../../components/notice.tsx'
import { isTaken } from '../../../components/palette/shortcuts.ts'
import styles from './log-view.module.css'
import type { LogSearch } from './log-view.tsx'
import type { Find } from './use-find.ts'

interface Props {
  id: string
  find: Find
  search: LogSearch
  onSearch(change: Partial<Record<keyof LogSearch, string | number | undefined>>): void
  wrap: boolean
  onWrap(wrap: boolean): void
  following: boolean
  onFollow(): void
  over: boolean
}

export function LogTools({ id, find, search, onSearch, wrap, onWrap, following, onFollow, over }: Props) {
  const download = useMutation({
    mutationFn: () => answer(api.GET('/api/pipelines/runs/{run_id}/logs', { params: { path: { run_id: id } } })),
    onSuccess: ({ logs }) => saveFile(new Blob([logs], { type: 'text/plain' }), `run-${id}.log`),
  })
  return (
    <>
      <search className={styles.tools}>
        <FindField q={search.q ?? ''} find={find} onChange={(q) => onSearch({ q: q || undefined })} />
        <label>
          <span className="visually-hidden">Level</span>
          <select
            className={styles.select}
            value={search.level ?? ''}
            onChange={(event) => onSearch({ level: event.target.value || undefined })}
          >
            <option value="">All levels</option>
            <option value="info">Info and above</option>
            <option value="warn">Warnings and errors</option>
            <option value="error">Errors</option>
          </select>
        </label>
        <label className={styles.check}>
          <input type="checkbox" checked={wrap} onChange={(event) => onWrap(event.target.checked)} /> Wrap
        </label>
        <span className={styles.space} />
        <Button look="quiet" onClick={onFollow} disabled={following} title="End or f, while the log has the focus">
          {following ? (over ? 'At the end' : 'Following') : over ? 'Go to the end' : 'Follow'}
        </Button>
        <Button look="quiet" busy={download.isPending} onClick={() => download.mutate()}>
          Download log
        </Button>
      </search>
      <ErrorNotice error={download.error} />
    </>
  )
}

/** The field follows every key; the address, and with it the search, only when typing pauses. */
function FindField({ q, find, onChange }: { q: string; find: Find; onChange(q: string): void }) {
  const [typed, setTyped] = useState(q)
  const field = useRef<HTMLInputElement>(null)
  const change = useRef(onChange)
  change.current = onChange
  useEffect(() => {
    if (typed === q) return
    const timer = setTimeout(() => change.current(typed), 200)
    return () => clearTimeout(timer)
  }, [typed, q])
  useEffect(() => {
    const focus = (event: globalThis.KeyboardEvent) => {
      if (event.key !== '/' || isTaken(event)) return
      event.preventDefault()
      field.current?.focus()
    }
    document.addEventListener('keydown', focus)
    return () => document.removeEventListener('keydown', focus)
  }, [])
  return (
    <span className={styles.find}>
      <Icon name="search" />
      <input
        ref={field}
        type="search"
        aria-label="Find in the log"
        placeholder="Find in the log"
        title="Press / to get here, Enter for the next line that matches"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return
          event.preventDefault()
          find.step(event.shiftKey ? 1 : -1)
        }}
      />
      <span className={styles.hits} role="status">
        {q !== '' && sayHits(find)}
      </span>
      <Button look="quiet" aria-label="Previous match" disabled={find.hits.length === 0} onClick={() => find.step(-1)}>
        <Icon name="up" />
      </Button>
      <Button look="quiet" aria-label="Next match" disabled={find.hits.length === 0} onClick={() => find.step(1)}>
        <Icon name="down" />
      </Button>
    </span>
  )
}

const plain = new Intl.NumberFormat()

function sayHits({ hits, at, more, searching }: Find): string {
  if (searching && hits.length === 0) return 'Searching'
  if (hits.length === 0) return 'No match'
  return `${plain.format(at + 1)} of ${plain.format(hits.length)}${more ? '+' : ''}`
}
