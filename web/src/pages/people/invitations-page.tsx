import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { answer, api, type Schemas } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { CopyText } from '../../components/copy-text.tsx'
import { Field, SelectField } from '../../components/field.tsx'
import { Menu } from '../../components/menu.tsx'
import { NotAllowed } from '../../components/not-allowed.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import table from '../../components/table.module.css'
import styles from './people.module.css'
import { PeopleHead } from './people-head.tsx'
import { invitationsQuery } from './queries.ts'
import { ROLE_WORDS } from './words.ts'

type Invitation = Schemas['Invitation']
type Created = Schemas['CreatedInvitation']
type InvitedRole = Invitation['role']

export function InvitationsPage() {
  const may = useMay('users:invite')
  return (
    <>
      <PeopleHead view="/people/invitations" />
      {may ? <Invitations /> : <NotAllowed permission="users:invite" what="Inviting people" />}
    </>
  )
}

function Invitations() {
  const invitations = useQuery(invitationsQuery)
  const [created, setCreated] = useState<Created | null>(null)
  return (
    <>
      <InviteForm onCreated={setCreated} />
      {created && <Link created={created} onDone={() => setCreated(null)} />}
      <h2 className={styles.pending}>Pending</h2>
      {invitations.isPending && <Skeleton rows={2} />}
      <ErrorNotice error={invitations.error} onRetry={invitations.refetch} />
      {invitations.data?.length === 0 && <p className="faint">Nobody is invited at the moment.</p>}
      {invitations.data && invitations.data.length > 0 && (
        <Pending invitations={invitations.data} onCreated={setCreated} />
      )}
    </>
  )
}

function InviteForm({ onCreated }: { onCreated(created: Created): void }) {
  const [email, setEmail] = useState('')
  const [role, setRole] = useState<InvitedRole>('member')
  const queries = useQueryClient()
  const invite = useMutation({
    mutationFn: () => answer(api.POST('/api/users/invite', { body: { email, role } })),
    onSuccess: (created) => {
      onCreated(created)
      setEmail('')
      void queries.invalidateQueries({ queryKey: ['invitations'] })
    },
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    invite.mutate()
  }
  return (
    <form className={styles.invite} onSubmit={submit}>
      <Field
        label="Email"
        type="email"
        required
        autoComplete="off"
        value={email}
        onChange={(event) => setEmail(event.target.value)}
      />
      <SelectField
        label="Role"
        value={role}
        hint={`${ROLE_WORDS[role]}.`}
        onChange={(event) => setRole(event.target.value as InvitedRole)}
      >
        <option value="viewer">viewer</option>
        <option value="member">member</option>
        <option value="admin">admin</option>
      </SelectField>
      <Button look="primary" type="submit" busy={invite.isPending}>
        Create an invitation
      </Button>
      <ErrorNotice error={invite.error} />
    </form>
  )
}

/** Its token is stored as a hash only, so the link can be shown this once. */
function Link({ created, onDone }: { created: Created; onDone(): void }) {
  return (
    <section className={styles.link} aria-label="The new invitation" aria-live="polite">
      <CopyText label={`Send this link to ${created.email}`} text={created.invite_url} />
      <p className="soft">
        It is shown only now, and can be used once until it expires (<Time at={created.expires_at} />
        ). Whoever has it can join as {created.role}.
      </p>
      <div>
        <Button onClick={onDone}>I have copied it</Button>
      </div>
    </section>
  )
}

function Pending({ invitations, onCreated }: { invitations: Invitation[]; onCreated(created: Created): void }) {
  return (
    <table className={table.table}>
      <thead>
        <tr>
          <th>Email</th>
          <th className={table.fit}>Role</th>
          <th className={table.wide}>Invited by</th>
          <th className={`${table.fit} ${table.wide}`}>Expires</th>
          <th className={`${table.fit} ${table.end}`}>
            <span className="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {invitations.map((invitation) => (
          <PendingRow key={invitation.id} invitation={invitation} onCreated={onCreated} />
        ))}
      </tbody>
    </table>
  )
}

function PendingRow({ invitation, onCreated }: { invitation: Invitation; onCreated(created: Created): void }) {
  const { id, email, role, invited_by_name, expires_at } = invitation
  const queries = useQueryClient()
  const cancel = () => api.DELETE('/api/users/invitations/{invitation_id}', { params: { path: { invitation_id: id } } })
  const refresh = () => queries.invalidateQueries({ queryKey: ['invitations'] })
  const cancelling = useMutation({ mutationFn: cancel, onSettled: refresh })
  const renewing = useMutation({
    mutationFn: async () => {
      await cancel()
      return answer(api.POST('/api/users/invite', { body: { email, role } }))
    },
    onSuccess: onCreated,
    onSettled: refresh,
  })
  const expired = Date.parse(expires_at) < Date.now()
  return (
    <tr>
      <td title={email}>{email}</td>
      <td className={table.fit}>{role}</td>
      <td className={`${table.wide} soft`}>{invited_by_name}</td>
      <td className={`${table.fit} ${table.wide} soft`}>{expired ? 'expired' : <Time at={expires_at} />}</td>
      <td className={`${table.fit} ${table.end}`}>
        <ErrorNotice error={cancelling.error ?? renewing.error} />
        <Menu
          label={`Actions for ${email}`}
          items={[
            { label: 'Cancel it and create a new link', onSelect: () => renewing.mutate() },
            { label: 'Cancel the invitation', onSelect: () => cancelling.mutate(), danger: true },
          ]}
        />
      </td>
    </tr>
  )
}
