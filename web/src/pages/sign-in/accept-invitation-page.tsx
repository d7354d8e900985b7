import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { type FormEvent, useEffect, useSyncExternalStore } from 'react'
import { answer, api } from '../../api/client.ts'
import { getTokens, signIn, subscribe } from '../../api/session.ts'
import { Button } from '../../components/button.tsx'
import { Field } from '../../components/field.tsx'
import { NewPassword } from '../../components/new-password.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Brand } from './brand.tsx'
import styles from './form.module.css'
import { ProviderButton } from './provider-button.tsx'

/** The page of an invitation link. Whoever is signed in accepts as that person; others create an account or sign in. */
export function AcceptInvitationPage() {
  const { token = '' } = useSearch({ from: '/accept-invitation' })
  const signedIn = useSyncExternalStore(subscribe, () => getTokens() !== null)
  const preview = useQuery({
    queryKey: ['invitation', token],
    queryFn: () => answer(api.GET('/api/users/invitations/preview', { params: { query: { token } } })),
    retry: false,
  })
  useEffect(() => {
    document.title = 'Invitation · Sluice'
  }, [])
  const invitation = preview.data
  return (
    <main className={styles.page}>
      <Brand />
      {preview.isPending && <Skeleton rows={4} />}
      {(preview.error || invitation?.is_expired) && (
        <Empty title="This invitation can no longer be used" action={<Link to="/">Go to the start</Link>}>
          {preview.error?.message ?? 'It has expired.'} Ask whoever invited you for a new one.
        </Empty>
      )}
      {invitation && !invitation.is_expired && (
        <>
          <div>
            <h1>Join {invitation.organization_name}</h1>
            <p className="soft">
              {invitation.invited_by_name ?? 'Someone'} invites {invitation.email} as {invitation.role}.
            </p>
          </div>
          {signedIn ? <Accept token={token} /> : <JoinForm token={token} email={invitation.email} />}
        </>
      )}
    </main>
  )
}

function Accept({ token }: { token: string }) {
  const navigate = useNavigate()
  const queries = useQueryClient()
  const accept = useMutation({
    mutationFn: () => answer(api.POST('/api/users/invitations/accept', { body: { token } })),
    onSuccess: async (tokens) => {
      signIn(tokens)
      queries.clear()
      await navigate({ to: '/' })
    },
  })
  return (
    <>
      <ErrorNotice error={accept.error} />
      <Button look="primary" busy={accept.isPending} onClick={() => accept.mutate()}>
        Accept the invitation
      </Button>
    </>
  )
}

function JoinForm({ token, email }: { token: string; email: string }) {
  const navigate = useNavigate()
  const register = useMutation({
    mutationFn: (body: { name: string; password: string }) =>
      answer(api.POST('/api/auth/register', { body: { ...body, email, invitation_token: token } })),
    onSuccess: async (tokens) => {
      signIn(tokens)
      await navigate({ to: '/' })
    },
  })
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    register.mutate({ name: String(form.get('name')), password: String(form.get('password')) })
  }
  return (
    <>
      <form className={styles.form} onSubmit={submit}>
        <Field label="Email" type="email" autoComplete="username" value={email} readOnly />
        <Field label="Your name" name="name" autoComplete="name" required autoFocus />
        <NewPassword name="password" />
        <ErrorNotice error={register.error} />
        <Button look="primary" type="submit" busy={register.isPending}>
          Create account and join
        </Button>
      </form>
      <ProviderButton invitation={token} />
      <p className={styles.other}>
        You have an account?{' '}
        <Link to="/sign-in" search={{ next: `/accept-invitation?token=${encodeURIComponent(token)}` }}>
          Sign in
        </Link>{' '}
        to accept with it.
      </p>
    </>
  )
}
