/** What a member may do, in words: what their role gives, and what roles in domains add there. */
import { useQuery } from '@tanstack/react-query'
import { can, type Permission, permissions, type Role } from '../../../../server/src/tenancy/permissions.ts'
import type { Schemas } from '../../api/client.ts'
import styles from './people.module.css'
import { domainRolesQuery } from './queries.ts'
import { PERMISSION_WORDS } from './words.ts'

const ALL = Object.keys(permissions) as Permission[]

export function Powers({ member }: { member: Schemas['Member'] }) {
  const { data: raised = [] } = useQuery(domainRolesQuery(member.id))
  const domain_roles = Object.fromEntries(raised.map(({ domain_id, role }) => [domain_id, role as Role]))
  const powers = { role: member.role, domain_roles, scope: null }
  return (
    <section>
      <h2>What they may do</h2>
      <ul className={styles.powers}>
        {ALL.map((permission) => {
          const everywhere = can(powers, permission)
          const some = raised.filter(({ domain_id }) => !everywhere && can(powers, permission, domain_id))
          return (
            <li key={permission} className={everywhere || some.length > 0 ? undefined : styles.not} title={permission}>
              <span aria-hidden="true">{everywhere ? '●' : some.length > 0 ? '◐' : '–'}</span>
              <span>
                {PERMISSION_WORDS[permission]}
                {some.length > 0 && (
                  <span className="soft"> · only in {some.map(({ domain_name }) => domain_name).join(', ')}</span>
                )}
                {!everywhere && some.length === 0 && <span className="visually-hidden"> · no</span>}
              </span>
            </li>
          )
        })}
      </ul>
    </section>
  )
}
