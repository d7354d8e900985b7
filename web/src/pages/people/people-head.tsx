import { Link } from '@tanstack/react-router'
import { useMay } from '../../api/person.ts'
import button from '../../components/button.module.css'
import { PageHead } from '../../components/page-head.tsx'
import { Tabs } from '../../components/tabs.tsx'

const VIEWS = [
  ['/people', 'Members'],
  ['/people/invitations', 'Invitations'],
] as const

/** The head of the two lists of people. */
export function PeopleHead({ view }: { view: (typeof VIEWS)[number][0] }) {
  const may = useMay('users:invite')
  return (
    <>
      <PageHead title="People" lead="Who belongs to this organization, and what they may do in it.">
        {may && view === '/people' && (
          <Link to="/people/invitations" className={`${button.button} ${button.primary}`}>
            Invite people
          </Link>
        )}
      </PageHead>
      <Tabs label="People" value={view} options={VIEWS} link={(to) => ({ to })} />
    </>
  )
}
