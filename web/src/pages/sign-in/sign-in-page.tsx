import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useEffect, useSyncExternalStore } from 'react'
import { installation } from '../../api/installation.ts'
import { providerReturn } from '../../api/provider-return.ts'
import { getTokens, subscribe } from '../../api/session.ts'
import { ErrorNotice } from '../../components/notice.tsx'
import { Brand } from './brand.tsx'
import styles from './form.module.css'
import { ProviderButton } from './provider-button.tsx'
import { SignInForm } from './sign-in-form.tsx'

export function SignInPage() {
  const { next } = useSearch({ from: '/sign-in' })
  const navigate = useNavigate()
  // Here or in another tab.
  const signedIn = useSyncExternalStore(subscribe, () => getTokens() !== null)
  useEffect(() => {
    if (signedIn) void navigate({ to: next ?? '/', replace: true })
  }, [signedIn, next, navigate])
  useEffect(() => {
    document.title = 'Sign in · Sluice'
  }, [])
  return (
    <main className={styles.page}>
      <Brand />
      <h1>Sign in</h1>
      <ErrorNotice error={providerReturn?.problem} />
      <SignInForm onSignedIn={() => {}} />
      <ProviderButton />
      {installation.signup === 'open' && (
        <p className={styles.other}>
          New here? <Link to="/sign-up">Create an account</Link>
        </p>
      )}
    </main>
  )
}
