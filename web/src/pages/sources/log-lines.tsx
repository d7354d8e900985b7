import { Button } from '../../components/button.tsx'
import { ScrollRegion } from '../../components/scroll-region.tsx'
import { FRAME } from './traceback.ts'
import styles from './workspace.module.css'

/** Lines of a log; a line of a traceback that is in the code leads there. */
export function LogLines({ lines, onJump }: { lines: readonly string[]; onJump(line: number): void }) {
  return (
    <ScrollRegion className={styles.lines} aria-label="Log lines">
      {lines
        .flatMap((entry) => entry.split('\n'))
        .map((line, index) => (
          <LogLine key={index} line={line} onJump={onJump} />
        ))}
    </ScrollRegion>
  )
}

function LogLine({ line, onJump }: { line: string; onJump(line: number): void }) {
  const [frame] = line.matchAll(FRAME)
  const level = /^(?:\S+ )?(WARN|WARNING|ERROR)\b/i.exec(line)?.[1]?.toLowerCase()
  const look = level === undefined ? undefined : level === 'error' ? styles.error : styles.warn
  if (!frame) return <div className={look}>{line}</div>
  const number = Number(frame[1])
  return (
    <div>
      <Button look="quiet" className={styles.jump!} onClick={() => onJump(number)}>
        {line}
      </Button>
    </div>
  )
}
