import { useState } from 'react'
import { missingIn } from '../../../server/src/identity/password-rules.ts'
import { Field } from './field.tsx'

/** A password to choose: what it still needs is said while it is typed. */
export function NewPassword({ label = 'Password', name }: { label?: string; name: string }) {
  const [password, setPassword] = useState('')
  const missing = missingIn(password)
  return (
    <Field
      label={label}
      name={name}
      type="password"
      autoComplete="new-password"
      required
      value={password}
      onChange={(event) => setPassword(event.target.value)}
      hint={missing.length > 0 ? `Needs ${missing.join(', ')}` : 'This will do'}
    />
  )
}
