import { useMutation } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { answer, api } from '../../api/client.ts'
import { signIn } from '../../api/session.ts'
import { Button } from '../../components/button.tsx'
import { Field } from '../../components/field.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import styles from './form.module.css'

/** Email and password. Also used in the dialog of an expired session. */
export function SignInForm({
  email: known,
  onSignedIn,
}: {
  email?: string | undefined
  /** `same`: the page behind the form is this person's. */
  onSignedIn(same: boolean): void
}) {
  const [email, setEmail] = useState(known ?? '')
  const [password, setPassword] = useState('')
  const login = useMutation({
    mutationFn: () => answer(api.POST('/api/auth/login', { body: { email, password } })),
    onSuccess: (tokens) => onSignedIn(signIn(tokens)),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    login.mutate()
  }
  return (
    <form className={styles.form} onSubmit={submit}>
      <Field
        label="Email"
        type="email"
        autoComplete="username"
        required
        autoFocus={!known}
        value={email}
        onChange={(event) => setEmail(event.target.value)}
      />
      <Field
        label="Password"
        type="password"
        autoComplete="current-password"
        required
        autoFocus={Boolean(known)}
        value={password}
        onChange={(event) => setPassword(event.target.value)}
      />
      <ErrorNotice error={login.error} />
      <Button look="primary" type="submit" busy={login.isPending}>
        {login.isPending ? 'Signing in…' : 'Sign in'}
      </Button>
    </form>
  )
}
