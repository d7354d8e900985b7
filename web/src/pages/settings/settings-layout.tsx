import { Link, Outlet, useLocation } from '@tanstack/react-router'
import { Suspense, useEffect, useRef } from 'react'
import { usePerson } from '../../api/person.ts'
import styles from './settings.module.css'

const OF_THE_ORGANIZATION = [
  ['/settings/organization', 'Organization'],
  ['/settings/domains', 'Domains'],
  ['/settings/api-keys', 'API keys'],
  ['/settings/alerts', 'Alerts'],
  ['/settings/webhooks', 'Webhooks'],
  ['/settings/audit', 'Audit'],
] as const

const OF_THE_PERSON = [
  ['/settings/profile', 'Profile'],
  ['/settings/password', 'Password'],
  ['/settings/sessions', 'Sessions'],
  ['/settings/appearance', 'Appearance'],
] as const

/** The navigation of the settings beside each of its pages. */
export function SettingsLayout() {
  const { organization } = usePerson()
  const navigation = useRef<HTMLElement>(null)
  const { pathname } = useLocation()
  // On a narrow screen it scrolls sideways, and the page one is on may be beyond the edge.
  useEffect(() => {
    navigation.current?.querySelector(`a[href="${pathname}"]`)?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [pathname])
  return (
    <div className={styles.layout}>
      <nav ref={navigation} className={styles.navigation} aria-label="Settings">
        <Places title={organization.name} places={OF_THE_ORGANIZATION} />
        <Places title="You" places={OF_THE_PERSON} />
      </nav>
      <div className={styles.content}>
        <Suspense>
          <Outlet />
        </Suspense>
      </div>
    </div>
  )
}

function Places({ title, places }: { title: string; places: readonly (readonly [string, string])[] }) {
  return (
    <>
      <p className={styles.group}>{title}</p>
      <ul>
        {places.map(([to, label]) => (
          <li key={to}>
            <Link to={to} className={styles.place}>
              {label}
            </Link>
          </li>
        ))}
      </ul>
    </>
  )
}
