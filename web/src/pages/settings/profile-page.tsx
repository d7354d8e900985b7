import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { answer, api } from '../../api/client.ts'
import { installation } from '../../api/installation.ts'
import { usePerson } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { Field } from '../../components/field.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import styles from './settings.module.css'
import { SettingsHead } from './settings-head.tsx'

export function ProfilePage() {
  const me = usePerson()
  return (
    <>
      <SettingsHead title="Profile" lead="The same in all your organizations." />
      <NameForm key={me.name} />
      {(installation.provider || me.idp_linked) && <IdentityProvider />}
    </>
  )
}

function NameForm() {
  const me = usePerson()
  const [name, setName] = useState(me.name)
  const queries = useQueryClient()
  const rename = useMutation({
    mutationFn: () => answer(api.PUT('/api/auth/me', { body: { name } })),
    onSuccess: () =>
      Promise.all([
        queries.invalidateQueries({ queryKey: ['me'] }),
        queries.invalidateQueries({ queryKey: ['members'] }),
      ]),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    rename.mutate()
  }
  return (
    <form className={styles.form} onSubmit={submit}>
      <Field
        label="Name"
        required
        maxLength={200}
        autoComplete="name"
        value={name}
        hint={me.idp_linked ? 'Your identity provider sets it again when you sign in there.' : undefined}
        onChange={(event) => setName(event.target.value)}
      />
      <Field
        label="Email"
        type="email"
        value={me.email}
        readOnly
        hint="You sign in with it. It cannot be changed here."
      />
      <ErrorNotice error={rename.error} />
      <div className={styles.actions}>
        <Button look="primary" type="submit" busy={rename.isPending} disabled={name.trim() === '' || name === me.name}>
          Save changes
        </Button>
      </div>
    </form>
  )
}

function IdentityProvider() {
  const { idp_linked, has_password } = usePerson()
  const queries = useQueryClient()
  const link = useMutation({
    mutationFn: () => answer(api.GET('/api/auth/link/idp')),
    onSuccess: ({ redirect_url }) => location.assign(redirect_url),
  })
  const unlink = useMutation({
    mutationFn: () => answer(api.DELETE('/api/auth/unlink/idp')),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['me'] }),
  })
  return (
    <section className={styles.section}>
      <h2>Identity provider</h2>
      <ErrorNotice error={link.error ?? unlink.error} />
      {idp_linked ? (
        <>
          <p className="soft">
            You can sign in with your account there.
            {!has_password && ' It is your only way in, because you have no password.'}
          </p>
          <Button busy={unlink.isPending} disabled={!has_password} onClick={() => unlink.mutate()}>
            Unlink the account
          </Button>
        </>
      ) : (
        <>
          <p className="soft">Link your account there, to sign in with it instead of a password.</p>
          <Button busy={link.isPending || link.isSuccess} onClick={() => link.mutate()}>
            Link an account
          </Button>
        </>
      )}
    </section>
  )
}
