/** What can be done with a member: another role, the ownership, removal. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, type Schemas } from '../../api/client.ts'
import { useMay, usePerson } from '../../api/person.ts'
import { Confirm } from '../../components/confirm.tsx'
import { ConfirmByTyping } from '../../components/confirm-by-typing.tsx'
import { Menu, type MenuItem } from '../../components/menu.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import { whyNotChange } from './rules.ts'

type Member = Schemas['Member']
const GIVEN_ROLES = ['viewer', 'member', 'admin'] as const

export function MemberActions({ member }: { member: Member }) {
  const me = usePerson()
  const mayTransfer = useMay('organization:transfer')
  const [asking, setAsking] = useState<'remove' | 'transfer' | null>(null)
  const change = useChangeRole(member)
  const why = whyNotChange(me, member)
  if (!me.permissions.includes('users:manage_roles')) return null
  const items: MenuItem[] = GIVEN_ROLES.filter((role) => role !== member.role).map((role) => ({
    label: `Make ${role}`,
    onSelect: () => change.mutate(role),
    disabled: why,
  }))
  if (mayTransfer && member.id !== me.id)
    items.push({ label: 'Transfer the ownership…', onSelect: () => setAsking('transfer'), danger: true })
  items.push({ label: 'Remove…', onSelect: () => setAsking('remove'), danger: true, disabled: why })
  return (
    <>
      <Menu label={`Actions for ${member.name}`} items={items} />
      <ErrorNotice error={change.error} />
      {asking === 'remove' && <RemoveMember member={member} onClose={() => setAsking(null)} />}
      {asking === 'transfer' && <TransferOwnership member={member} onClose={() => setAsking(null)} />}
    </>
  )
}

export function useChangeRole(member: Member) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (role: (typeof GIVEN_ROLES)[number]) =>
      api.PUT('/api/users/{user_id}/role', { params: { path: { user_id: member.id } }, body: { role } }),
    onSettled: () =>
      Promise.all([
        queries.invalidateQueries({ queryKey: ['members'] }),
        queries.invalidateQueries({ queryKey: ['invitations'] }),
        queries.invalidateQueries({ queryKey: ['me'] }),
      ]),
  })
}

export function RemoveMember({ member, onClose }: { member: Member; onClose(): void }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const me = usePerson()
  const remove = useMutation({
    mutationFn: () => api.DELETE('/api/users/{user_id}', { params: { path: { user_id: member.id } } }),
    onSuccess: async () => {
      onClose()
      await navigate({ to: '/people' })
      await queries.invalidateQueries({ queryKey: ['members'], exact: true })
    },
  })
  return (
    <Confirm
      title={`Remove ${member.name}?`}
      action="Remove from the organization"
      onConfirm={() => remove.mutate()}
      onClose={onClose}
      busy={remove.isPending}
      error={remove.error}
    >
      <p>
        {member.id === me.id ? 'Your' : 'Their'} sessions and API keys in {me.organization.name} end at once, and the
        invitations that {member.id === me.id ? 'you' : 'they'} sent are cancelled. Pipelines stay.
      </p>
    </Confirm>
  )
}

export function TransferOwnership({ member, onClose }: { member: Member; onClose(): void }) {
  const queries = useQueryClient()
  const { organization } = usePerson()
  const transfer = useMutation({
    mutationFn: () => api.POST('/api/organization/transfer-ownership', { body: { user_id: member.id } }),
    onSuccess: async () => {
      onClose()
      await queries.invalidateQueries()
    },
  })
  return (
    <ConfirmByTyping
      title={`Make ${member.name} the owner?`}
      word={organization.name}
      action="Transfer the ownership"
      onConfirm={() => transfer.mutate()}
      onClose={onClose}
      busy={transfer.isPending}
      error={transfer.error}
    >
      <p>
        {member.name} ({member.email}) will own {organization.name}, and you become an admin. Only {member.name} can
        give it back.
      </p>
    </ConfirmByTyping>
  )
}
