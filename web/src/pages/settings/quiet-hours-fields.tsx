import { Field, SelectField } from '../../components/field.tsx'
import { ownZone, WEEKDAYS, type Weekday } from './alert-fields.ts'
import type { PartProps } from './alert-form.tsx'
import { Checks } from './checks.tsx'
import styles from './settings.module.css'

export function QuietHoursFields({ fields, problems, change }: PartProps) {
  const { quiet, from, until, time_zone, days } = fields
  const zones = [...new Set(['UTC', ownZone(), time_zone, ...Intl.supportedValuesOf('timeZone')])]
  return (
    <>
      <label className={styles.check}>
        <input type="checkbox" checked={quiet} onChange={(event) => change({ quiet: event.target.checked })} />
        Quiet hours
      </label>
      {quiet && (
        <>
          <Field
            label="From"
            type="time"
            required
            value={from}
            problem={problems['quiet_hours.from']}
            onChange={(event) => change({ from: event.target.value })}
          />
          <Field
            label="To"
            type="time"
            required
            // A clock has no 24:00, which the API takes for the end of a day.
            value={until === '24:00' ? '00:00' : until}
            problem={problems['quiet_hours.to']}
            hint="What happens meanwhile is sent at their end, unless it is over by then."
            onChange={(event) => change({ until: event.target.value === '00:00' ? '24:00' : event.target.value })}
          />
          <SelectField
            label="Time zone"
            value={time_zone}
            problem={problems['quiet_hours.time_zone']}
            onChange={(event) => change({ time_zone: event.target.value })}
          >
            {zones.map((zone) => (
              <option key={zone}>{zone}</option>
            ))}
          </SelectField>
          <Checks
            legend="On nights or days that begin on"
            words={WEEKDAYS}
            all={Object.keys(WEEKDAYS) as Weekday[]}
            chosen={days}
            problem={problems['quiet_hours.days']}
            onChange={(chosen) => change({ days: chosen })}
          />
        </>
      )}
    </>
  )
}
