import { memo } from 'react'
import { splitLine } from './log-lines.ts'
import styles from './log-view.module.css'

interface Props {
  number: number
  /** Undefined: not loaded yet. */
  line: string | undefined
  q: string
}

/** Number, time, level and text of a line. */
export const LogLine = memo(function LogLine({ number, line, q }: Props) {
  const { time, level, text } = splitLine(line ?? '')
  return (
    <>
      <span className={styles.number}>{number}</span>
      <span
        className={styles.time}
        title={time === null ? undefined : `${time.replace('T', ' ').replace('Z', '')} UTC`}
      >
        {time !== null && sayTime(new Date(time))}
      </span>
      <span className={`${styles.level} ${level ? styles[level] : ''}`}>{level?.toUpperCase()}</span>
      <span className={`${styles.text} ${level ? styles[level] : styles.info}`}>
        {line === undefined ? '…' : q === '' ? text : <Marked text={text} q={q} />}
      </span>
    </>
  )
})

/** Enough to see where; a line of 32 KB may have thousands. */
const MOST_MARKS = 50

function Marked({ text, q }: { text: string; q: string }) {
  const lower = text.toLowerCase()
  const wanted = q.toLowerCase()
  const parts = []
  let from = 0
  for (let at = lower.indexOf(wanted); at >= 0 && parts.length < MOST_MARKS; at = lower.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + q.length)}</mark>)
    from = at + q.length
  }
  return (
    <>
      {parts}
      {text.slice(from)}
    </>
  )
}

/** In the viewer's zone; Intl would take longer than everything else about a line. */
function sayTime(time: Date): string {
  const two = (value: number) => String(value).padStart(2, '0')
  const ms = String(time.getMilliseconds()).padStart(3, '0')
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${ms}`
}
