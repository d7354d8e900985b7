import { useMutation } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { type FormEvent, useEffect } from 'react'
import { answer, api } from '../../api/client.ts'
import { signIn } from '../../api/session.ts'
import { Button } from '../../components/button.tsx'
import { Field } from '../../components/field.tsx'
import { NewPassword } from '../../components/new-password.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import { Brand } from './brand.tsx'
import styles from './form.module.css'
import { ProviderButton } from './provider-button.tsx'

export function SignUpPage() {
  const navigate = useNavigate()
  useEffect(() => {
    document.title = 'Create an account · Sluice'
  }, [])
  const register = useMutation({
    mutationFn: (body: { name: string; email: string; password: string; organization_name: string }) =>
      answer(api.POST('/api/auth/register', { body })),
    onSuccess: async (tokens) => {
      signIn(tokens)
      await navigate({ to: '/' })
    },
  })
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const read = (name: string) => String(form.get(name) ?? '')
    register.mutate({
      name: read('name'),
      email: read('email'),
      password: read('password'),
      organization_name: read('organization_name'),
    })
  }
  return (
    <main className={styles.page}>
      <Brand />
      <h1>Create an account</h1>
      <form className={styles.form} onSubmit={submit}>
        <Field label="Your name" name="name" autoComplete="name" required maxLength={200} autoFocus />
        <Field label="Organization" name="organization_name" autoComplete="organization" required maxLength={200} />
        <Field label="Email" name="email" type="email" autoComplete="username" required />
        <NewPassword name="password" />
        <ErrorNotice error={register.error} />
        <Button look="primary" type="submit" busy={register.isPending}>
          {register.isPending ? 'Creating…' : 'Create account'}
        </Button>
      </form>
      <ProviderButton />
      <p className={styles.other}>
        You have an account? <Link to="/sign-in">Sign in</Link>
      </p>
    </main>
  )
}
