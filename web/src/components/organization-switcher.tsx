/** The organization of the page, and the way to the others that one belongs to. */
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from '@tanstack/react-query'
import { answer, api } from '../api/client.ts'
import { meQuery, organizationsQuery } from '../api/queries.ts'
import { signIn } from '../api/session.ts'
import { Icon } from './icon.tsx'
import { ErrorNotice } from './notice.tsx'
import styles from './organization-switcher.module.css'

export function OrganizationSwitcher() {
  const { organization } = useSuspenseQuery(meQuery).data
  const { data: organizations = [] } = useQuery(organizationsQuery)
  const alone = organizations.length < 2
  return (
    <>
      <button
        type="button"
        className={styles.name}
        popoverTarget={alone ? undefined : 'organizations'}
        aria-haspopup={alone ? undefined : 'true'}
        disabled={alone}
        title={organization.name}
      >
        <span className={styles.initial} aria-hidden="true">
          {[...organization.name][0]}
        </span>
        <span className={styles.words}>{organization.name}</span>
        {!alone && <Icon name="down" />}
      </button>
      <div id="organizations" popover="auto" className={styles.menu}>
        <Choices />
      </div>
    </>
  )
}

/** Nothing for those who belong to one alone. */
export function OtherOrganizations() {
  const { data: organizations = [] } = useQuery(organizationsQuery)
  if (organizations.length < 2) return null
  return (
    <section className={styles.list} aria-label="Organizations">
      <p className="faint">Organizations</p>
      <Choices />
    </section>
  )
}

function Choices() {
  const { organization } = useSuspenseQuery(meQuery).data
  const { data: organizations = [] } = useQuery(organizationsQuery)
  const queries = useQueryClient()
  const change = useMutation({
    mutationFn: (organization_id: string) => answer(api.POST('/api/auth/switch', { body: { organization_id } })),
    onSuccess: (tokens) => {
      signIn(tokens)
      queries.clear()
      // What is shown belongs to the other organization, and so does the address.
      location.assign('/')
    },
  })
  return (
    <>
      {organizations.map(({ id, name, role }) => {
        const here = id === organization.id
        return (
          <button
            key={id}
            type="button"
            className={styles.choice}
            aria-current={here || undefined}
            disabled={change.isPending || here}
            onClick={() => change.mutate(id)}
          >
            <span>{name}</span>
            <span className="faint">{here ? 'here' : role}</span>
          </button>
        )
      })}
      <ErrorNotice error={change.error} />
    </>
  )
}
