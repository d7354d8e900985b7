/** What stands between a page and the server, above the page, so that nothing typed into it is lost. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useLayoutEffect, useRef } from 'react'
import { ApiError } from '../api/client.ts'
import { installation } from '../api/installation.ts'
import { meQuery } from '../api/queries.ts'
import { type Obstacle, signIn, stayHere } from '../api/session.ts'
import { SignInForm } from '../pages/sign-in/sign-in-form.tsx'
import { Button } from './button.tsx'
import dialogStyles from './dialog.module.css'
import { DialogActions } from './dialog.tsx'
import { ErrorNotice } from './notice.tsx'

export function ObstacleDialog({ obstacle }: { obstacle: Obstacle }) {
  return obstacle === 'expired' ? <SignInAgain /> : <OtherOrganization />
}

function SignInAgain() {
  const queries = useQueryClient()
  const email = queries.getQueryData(meQuery.queryKey)?.email
  return (
    <Blocking title="Your session has ended">
      <p className="soft">Sign in to go on where you were. Nothing you typed is lost.</p>
      <SignInForm email={email} onSignedIn={(same) => (same ? undefined : void returnHere().catch(leave))} />
      {installation.provider && (
        <p className="soft">
          Or{' '}
          <a href="/sign-in" target="_blank" rel="noreferrer">
            sign in with your identity provider in a new tab
          </a>
          ; this page then goes on by itself.
        </p>
      )}
    </Blocking>
  )
}

function OtherOrganization() {
  const queries = useQueryClient()
  const name = queries.getQueryData(meQuery.queryKey)?.organization.name ?? 'this organization'
  const stay = useMutation({ mutationFn: returnHere })
  return (
    <Blocking title="You opened another organization in another tab">
      <p className="soft">This page belongs to {name}.</p>
      <ErrorNotice error={stay.error} />
      <DialogActions>
        <Button look="primary" busy={stay.isPending} onClick={() => stay.mutate()}>
          Stay in {name}
        </Button>
        <Button onClick={leave}>Go to the other one</Button>
      </DialogActions>
    </Blocking>
  )
}

/** Whoever signed in has nothing to do with this page. */
const leave = () => location.assign('/')

/**
 * Signing in opens the organization that was used last, which may be another one than this page's. By its own fetch, because
 * all other requests of this page wait for the outcome.
 */
async function returnHere(): Promise<void> {
  const { organization_id, access_token } = stayHere()
  const response = await fetch('/api/auth/switch', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${access_token}` },
    body: JSON.stringify({ organization_id }),
  })
  if (!response.ok) throw new ApiError(response.status, 'You can no longer open this organization', response.headers)
  if (!signIn(await response.json())) leave()
}

function Blocking({ title, children }: { title: string; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => {
    const element = dialog.current!
    element.showModal()
    return () => element.close()
  }, [])
  return (
    <dialog
      ref={dialog}
      className={dialogStyles.dialog}
      aria-labelledby="obstacle"
      onCancel={(event) => event.preventDefault()}
    >
      <h2 id="obstacle">{title}</h2>
      {children}
    </dialog>
  )
}
