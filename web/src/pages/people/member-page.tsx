/** A member: their role, their roles in domains, and what follows from them. */
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { Schemas } from '../../api/client.ts'
import { useMay, usePerson } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { SelectField } from '../../components/field.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import { Time } from '../../components/quantities.tsx'
import { DomainRoles } from './domain-roles.tsx'
import { RemoveMember, TransferOwnership, useChangeRole } from './member-actions.tsx'
import styles from './people.module.css'
import { Powers } from './powers.tsx'
import { memberQuery } from './queries.ts'
import { whyNotChange } from './rules.ts'
import { ROLE_WORDS } from './words.ts'

type Member = Schemas['Member']

export function MemberPage() {
  const { id } = useParams({ from: '/frame/people/$id' })
  const member = useQuery(memberQuery(id))
  if (member.isPending) return <Skeleton rows={8} />
  if (!member.data) return <ErrorNotice error={member.error} onRetry={member.refetch} />
  return <MemberDetails member={member.data} />
}

function MemberDetails({ member }: { member: Member }) {
  const me = usePerson()
  const [asking, setAsking] = useState<'remove' | 'transfer' | null>(null)
  const mayTransfer = useMay('organization:transfer')
  const why = whyNotChange(me, member)
  return (
    <>
      <PageHead
        title={member.name}
        trail={[['People', { to: '/people' }]]}
        lead={
          <>
            {member.email} · joined <Time at={member.joined_at} />
            {member.id === me.id && ' · this is you'}
          </>
        }
      >
        {mayTransfer && member.id !== me.id && (
          <Button onClick={() => setAsking('transfer')}>Transfer the ownership…</Button>
        )}
        {why === null && (
          <Button look="danger" onClick={() => setAsking('remove')}>
            Remove…
          </Button>
        )}
      </PageHead>
      <div className={styles.member}>
        <div className={styles.column}>
          <Role member={member} why={why} />
          <DomainRoles member={member} />
        </div>
        <Powers member={member} />
      </div>
      {asking === 'remove' && <RemoveMember member={member} onClose={() => setAsking(null)} />}
      {asking === 'transfer' && <TransferOwnership member={member} onClose={() => setAsking(null)} />}
    </>
  )
}

function Role({ member, why }: { member: Member; why: string | null }) {
  const change = useChangeRole(member)
  if (why !== null)
    return (
      <section>
        <h2>Role</h2>
        <p>
          {member.role}. <span className="soft">{ROLE_WORDS[member.role]}.</span>
        </p>
        <p className="faint">{why}.</p>
      </section>
    )
  return (
    <section>
      <h2>Role</h2>
      <SelectField
        label="In the whole organization"
        className={styles.narrow!}
        hint={`${ROLE_WORDS[member.role]}. A change takes effect at once.`}
        value={member.role}
        disabled={change.isPending}
        onChange={(event) => change.mutate(event.target.value as 'viewer')}
      >
        <option value="viewer">viewer</option>
        <option value="member">member</option>
        <option value="admin">admin</option>
      </SelectField>
      <ErrorNotice error={change.error} />
    </section>
  )
}
