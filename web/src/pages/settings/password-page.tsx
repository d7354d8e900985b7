import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useRef } from 'react'
import { answer, api } from '../../api/client.ts'
import { usePerson } from '../../api/person.ts'
import { problemsOf } from '../../api/problems.ts'
import { Button } from '../../components/button.tsx'
import { Field } from '../../components/field.tsx'
import { NewPassword } from '../../components/new-password.tsx'
import { Empty, ErrorNotice } from '../../components/notice.tsx'
import styles from './settings.module.css'
import { SettingsHead } from './settings-head.tsx'

export function PasswordPage() {
  const { has_password } = usePerson()
  return (
    <>
      <SettingsHead title="Password" lead={has_password && 'A new password ends all your other sessions.'} />
      {has_password ? (
        <PasswordForm />
      ) : (
        <Empty title="You have no password">
          You sign in with your identity provider. An operator of this installation can set a password for you.
        </Empty>
      )}
    </>
  )
}

function PasswordForm() {
  const { email } = usePerson()
  const form = useRef<HTMLFormElement>(null)
  const queries = useQueryClient()
  const change = useMutation({
    mutationFn: (body: { current_password: string; new_password: string }) =>
      answer(api.PUT('/api/auth/password', { body })),
    onSuccess: () => {
      form.current!.reset()
      void queries.invalidateQueries({ queryKey: ['sessions'] })
    },
  })
  const { byPath } = problemsOf(change.error, '')
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const data = new FormData(event.currentTarget)
    change.mutate({ current_password: String(data.get('current')), new_password: String(data.get('new')) })
  }
  return (
    <form ref={form} className={styles.form} onSubmit={submit}>
      {/* For password managers, so that they know whose password changes. */}
      <input type="hidden" autoComplete="username" value={email} readOnly />
      <Field
        label="Current password"
        name="current"
        type="password"
        autoComplete="current-password"
        required
        problem={byPath.current_password}
      />
      <NewPassword key={change.isSuccess ? 'changed' : 'open'} label="New password" name="new" />
      {byPath.new_password && <p className={styles.bad}>{byPath.new_password}</p>}
      {Object.keys(byPath).length === 0 && <ErrorNotice error={change.error} />}
      <div className={styles.actions}>
        <Button look="primary" type="submit" busy={change.isPending}>
          Change the password
        </Button>
        {change.isSuccess && (
          <span role="status" className={styles.good}>
            Changed. All your other sessions have ended.
          </span>
        )}
      </div>
    </form>
  )
}
