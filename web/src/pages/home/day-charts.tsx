import { useQuery } from '@tanstack/react-query'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { sayCount, sayExactly } from '../../components/quantities.tsx'
import styles from './day-charts.module.css'
import { type Day, daysQuery } from './queries.ts'

interface Part {
  value: number
  look: string | undefined
}

/** Runs and records of the last two weeks, each from zero to its highest day. */
export function DayCharts() {
  const days = useQuery(daysQuery)
  if (days.error && !days.data) return <ErrorNotice error={days.error} onRetry={days.refetch} />
  if (!days.data) return <Skeleton rows={4} />
  return (
    <div className={styles.charts}>
      <Chart
        title="Runs per day"
        days={days.data}
        partsOf={({ runs, failed }) => [
          { value: failed, look: styles.failed },
          { value: runs - failed, look: styles.fine },
        ]}
        say={({ runs, failed }) => `${sayExactly(runs)} ${runs === 1 ? 'run' : 'runs'}, ${sayExactly(failed)} failed`}
      />
      <Chart
        title="Records per day"
        days={days.data}
        partsOf={({ records }) => [{ value: records, look: styles.records }]}
        say={({ records }) => `${sayExactly(records)} ${records === 1 ? 'record' : 'records'}`}
      />
    </div>
  )
}

interface ChartProps {
  title: string
  days: Day[]
  /** From the bottom up. */
  partsOf(day: Day): Part[]
  say(day: Day): string
}

function Chart({ title, days, partsOf, say }: ChartProps) {
  const sums = days.map((day) => partsOf(day).reduce((sum, { value }) => sum + value, 0))
  const most = roundUp(Math.max(...sums))
  return (
    <section>
      <h2>{title}</h2>
      <div className={styles.chart}>
        <p className={styles.most} aria-hidden="true">
          {sayCount(most)}
        </p>
        <ol className={styles.days}>
          {days.map((day, index) => {
            const date = dateOf(day)
            return (
              <li key={day.day} title={`${long.format(date)}: ${say(day)}`}>
                <span className="visually-hidden">
                  {long.format(date)}: {say(day)}
                </span>
                <span className={styles.column} aria-hidden="true">
                  {partsOf(day).map(
                    ({ value, look }) =>
                      value > 0 && (
                        <span key={look} className={look} style={{ height: `max(2px, ${(value / most) * 100}%)` }} />
                      ),
                  )}
                </span>
                <span className={styles.day} aria-hidden="true">
                  {index === days.length - 1 ? 'today' : (days.length - 1 - index) % 2 === 0 ? short.format(date) : ''}
                </span>
              </li>
            )
          })}
        </ol>
      </div>
    </section>
  )
}

/** To a number that reads well: 1, 2 or 5 and zeros. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)))
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power
}

const dateOf = ({ day }: Day) => new Date(`${day}T12:00:00`)
const long = new Intl.DateTimeFormat(undefined, { weekday: 'long', day: 'numeric', month: 'long' })
const short = new Intl.DateTimeFormat(undefined, { weekday: 'short' })
