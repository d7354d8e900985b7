import { useState } from 'react'
import { Button } from '../button.tsx'
import fieldStyles from '../field.module.css'
import type { Attributes } from './controls.tsx'
import { MASK } from './schema.ts'
import styles from './schema-form.module.css'

interface Props {
  attributes: Attributes
  value: unknown
  onChange(value: unknown): void
}

/** A stored secret is never shown. It stays as it is until something else is typed, and again once that is deleted. */
export function SecretInput({ attributes, value, onChange }: Props) {
  const [wasStored] = useState(value === MASK)
  const stored = value === MASK
  return (
    <div className={styles.secret}>
      <input
        {...attributes}
        className={fieldStyles.input}
        type="password"
        autoComplete="new-password"
        placeholder={stored ? 'Stored, unchanged' : wasStored ? 'Will be removed' : undefined}
        value={stored || typeof value !== 'string' ? '' : value}
        onChange={(event) => onChange(event.target.value || (wasStored ? MASK : undefined))}
      />
      {wasStored && !attributes['aria-required'] && (
        <Button onClick={() => onChange(stored ? undefined : MASK)}>{stored ? 'Remove' : 'Keep stored'}</Button>
      )}
    </div>
  )
}

/** A secret that is more than one line: it is replaced as a whole. */
export function StoredSecret({ onReplace }: { onReplace(): void }) {
  return (
    <div className={styles.secret}>
      <p className="soft">Stored, unchanged</p>
      <Button onClick={onReplace}>Replace</Button>
    </div>
  )
}
