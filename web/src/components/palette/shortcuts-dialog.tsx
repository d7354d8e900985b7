import { useState } from 'react'
import { Dialog } from '../dialog.tsx'
import type { Place } from '../places.ts'
import styles from './palette.module.css'
import { areShortcutsOn, keysOf, switchShortcuts } from './shortcuts.ts'

interface Group {
  name: string
  keys: [keys: string[], does: string][]
}

/** What the keys do. */
export default function ShortcutsDialog({ places, onClose }: { places: readonly Place[]; onClose(): void }) {
  const [on, setOn] = useState(areShortcutsOn)
  const groups: Group[] = [
    {
      name: 'Everywhere',
      keys: [
        [['Ctrl or ⌘', 'K'], 'Find a page, a pipeline, a run or an action'],
        [['?'], 'This list'],
        ...[...keysOf(places)].map(([key, { label }]): Group['keys'][number] => [['g', key], `Go to ${label}`]),
      ],
    },
    {
      name: 'Log of a run',
      keys: [
        [['/'], 'Find in the log'],
        [['Enter'], 'Previous match, in the find field; with Shift the next'],
        [['n'], 'Next match, N the previous'],
        [['End'], 'Back to the end, and follow; f does the same'],
      ],
    },
    {
      name: 'Timeline and code',
      keys: [
        [['← ↑ → ↓'], 'Between the runs of the timeline'],
        [['Ctrl or ⌘', 'Enter'], 'Run the query, or the preview'],
        [['Ctrl or ⌘', 'S'], 'Save the source'],
        [['Esc', 'Tab'], 'Leave a field for code'],
      ],
    },
  ]
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose} wide>
      <div className={styles.groups}>
        {groups.map(({ name, keys }) => (
          <section key={name}>
            <h3>{name}</h3>
            <dl>
              {keys.map(([combination, does]) => (
                <div key={does}>
                  <dt>
                    {combination.map((key) => (
                      <kbd key={key}>{key}</kbd>
                    ))}
                  </dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <label className={styles.switch}>
        <input
          type="checkbox"
          checked={on}
          onChange={(event) => {
            switchShortcuts(event.target.checked)
            setOn(event.target.checked)
          }}
        />{' '}
        Use shortcuts of single keys in this browser
      </label>
    </Dialog>
  )
}
