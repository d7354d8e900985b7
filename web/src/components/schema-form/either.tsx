/** Settings that exclude each other: the person chooses which of them to give. */
import { type ReactNode, useId, useState } from 'react'
import type { Schema, Settings } from './schema.ts'
import styles from './schema-form.module.css'

interface Props {
  either: NonNullable<Schema['either']>
  value: Settings
  onChange(value: Settings): void
  draw(name: string): ReactNode
}

export function Either({ either, value, onChange, draw }: Props) {
  const group = useId()
  const given = either.findIndex(({ fields }) => fields.some((name) => value[name] !== undefined))
  const [chosen, setChosen] = useState(Math.max(0, given))
  // What was typed for the other choice comes back when it is chosen again.
  const [kept, setKept] = useState<Settings>({})
  const current = given === -1 ? chosen : given
  function choose(place: number) {
    const wanted = either[place]!.fields
    const others = either.flatMap(({ fields }) => fields).filter((name) => !wanted.includes(name))
    const all = { ...kept, ...value }
    setKept(Object.fromEntries(Object.entries(all).filter(([name]) => others.includes(name))))
    setChosen(place)
    onChange(Object.fromEntries(Object.entries(all).filter(([name]) => !others.includes(name))))
  }
  const { fields } = either[current]!
  return (
    <>
      <div className={styles.either} role="radiogroup" aria-label="What to give">
        {either.map(({ title }, place) => (
          <label key={title}>
            <input type="radio" name={group} checked={place === current} onChange={() => choose(place)} />
            {title}
          </label>
        ))}
      </div>
      {fields.map(draw)}
    </>
  )
}
