import { setTheme, type Theme, useTheme } from '../../components/theme.ts'
import styles from './settings.module.css'
import { SettingsHead } from './settings-head.tsx'

const THEMES: readonly (readonly [Theme, string])[] = [
  ['system', 'As the system is'],
  ['light', 'Light'],
  ['dark', 'Dark'],
]

export function AppearancePage() {
  const theme = useTheme()
  return (
    <>
      <SettingsHead title="Appearance" lead="In this browser alone." />
      <fieldset className={styles.checks}>
        <legend className={styles.legend}>Theme</legend>
        {THEMES.map(([value, words]) => (
          <label key={value} className={styles.check}>
            <input type="radio" name="theme" checked={theme === value} onChange={() => setTheme(value)} />
            {words}
          </label>
        ))}
      </fieldset>
    </>
  )
}
