/** The frame of every page of a signed-in person: the rail, the bar above the page, and the dialog of an expired session. */
import { useSuspenseQuery } from '@tanstack/react-query'
import { Link, Navigate, Outlet, useLocation } from '@tanstack/react-router'
import { lazy, Suspense, useCallback, useEffect, useRef, useState, useSyncExternalStore } from 'react'
import { useLiveRuns } from '../api/live-runs.ts'
import { meQuery } from '../api/queries.ts'
import { getObstacle, getTokens, subscribe } from '../api/session.ts'
import { Button } from './button.tsx'
import styles from './frame.module.css'
import { Icon } from './icon.tsx'
import { ObstacleDialog } from './obstacle-dialog.tsx'
import { OrganizationSwitcher, OtherOrganizations } from './organization-switcher.tsx'
import { useShortcuts } from './palette/shortcuts.ts'
import type { Place } from './places.ts'
import { ThemeSwitch } from './theme-switch.tsx'
import { useSignOut } from './use-sign-out.ts'

const Palette = lazy(() => import('./palette/palette.tsx'))
const ShortcutsDialog = lazy(() => import('./palette/shortcuts-dialog.tsx'))

const PLACES: Place[] = [
  { to: '/', label: 'Home', icon: 'home' },
  { to: '/pipelines', label: 'Pipelines', icon: 'pipelines' },
  { to: '/runs', label: 'Runs', icon: 'runs' },
  { to: '/connections', label: 'Connections', icon: 'connections' },
  { to: '/sources', label: 'Sources', icon: 'sources' },
  { to: '/people', label: 'People', icon: 'people' },
  { to: '/settings', label: 'Settings', icon: 'settings' },
]

/** What has room in the bar of a narrow screen; the others are behind "More". */
const IN_BAR = new Set(['/', '/pipelines', '/runs', '/sources'])

export function Frame() {
  const signedIn = useSyncExternalStore(subscribe, () => getTokens() !== null)
  const obstacle = useSyncExternalStore(subscribe, getObstacle)
  const [shown, setShown] = useState<{ what: 'palette' | 'shortcuts'; at: number } | null>(null)
  const opened = useRef(0)
  const open = useCallback((what: 'palette' | 'shortcuts') => setShown({ what, at: ++opened.current }), [])
  useLiveRuns()
  useShortcuts(PLACES, open)
  // Signed out, here or in another tab.
  if (!signedIn && obstacle === null) return <Navigate to="/sign-in" replace />
  return (
    <div className={styles.frame}>
      <a className={styles.skip} href="#page">
        Skip to the page
      </a>
      <nav className={styles.rail} aria-label="Main">
        <Suspense fallback={<div className={styles.organization} />}>
          <OrganizationSwitcher />
        </Suspense>
        <ul>
          {PLACES.map((place) => (
            <li key={place.to} className={IN_BAR.has(place.to) ? undefined : styles.beyond}>
              <PlaceLink {...place} />
            </li>
          ))}
          <li className={styles.rest}>
            <button type="button" className={styles.place} popoverTarget="places" aria-haspopup="true">
              <Icon name="more" />
              <span>More</span>
            </button>
          </li>
        </ul>
      </nav>
      <div className={styles.main}>
        <header className={styles.bar}>
          <div id="crumbs" className={styles.crumbs} />
          <Button look="quiet" className={styles.search!} onClick={() => open('palette')} title="Find anything">
            <Icon name="search" />
            <span className="visually-hidden">Find anything</span>
            <kbd>{APPLE ? '⌘ K' : 'Ctrl K'}</kbd>
          </Button>
          <Button
            look="quiet"
            className={styles.keys!}
            onClick={() => open('shortcuts')}
            aria-label="Keyboard shortcuts"
            title="Keyboard shortcuts"
          >
            ?
          </Button>
          <ThemeSwitch />
          <Suspense>
            <PersonMenu />
          </Suspense>
        </header>
        <main id="page" className={styles.page} tabIndex={-1}>
          <Suspense>
            <Outlet />
          </Suspense>
        </main>
      </div>
      <MorePlaces />
      <Suspense>
        {shown?.what === 'palette' && (
          // A choice closes the palette when its page is there; one that was opened meanwhile stays.
          <Palette
            key={shown.at}
            places={PLACES}
            onClose={() => setShown((now) => (now?.at === shown.at ? null : now))}
            onShortcuts={() => open('shortcuts')}
          />
        )}
        {shown?.what === 'shortcuts' && <ShortcutsDialog places={PLACES} onClose={() => setShown(null)} />}
      </Suspense>
      {obstacle && <ObstacleDialog obstacle={obstacle} />}
    </div>
  )
}

const APPLE = /Mac|iPhone|iPad/.test(navigator.userAgent)

function PlaceLink({ to, label, icon }: Place) {
  return (
    <Link to={to} className={styles.place} activeOptions={{ exact: to === '/' }} title={label}>
      <Icon name={icon} />
      <span>{label}</span>
    </Link>
  )
}

/** Only on narrow screens: the places that have no room in the bar, and the other organizations. */
function MorePlaces() {
  const list = useRef<HTMLElement>(null)
  const { pathname } = useLocation()
  useEffect(() => list.current?.hidePopover(), [pathname])
  return (
    <nav ref={list} id="places" popover="auto" className={styles.places} aria-label="More">
      {PLACES.filter(({ to }) => !IN_BAR.has(to)).map((place) => (
        <PlaceLink key={place.to} {...place} />
      ))}
      <Suspense>
        <OtherOrganizations />
      </Suspense>
    </nav>
  )
}

/** The first letters of the first and the last name. */
function initialsOf(name: string): string {
  const words = name.split(/\s+/).filter(Boolean)
  const letters = [words[0], words.length > 1 ? words.at(-1) : undefined].map((word) => [...(word ?? '')][0] ?? '')
  return letters.join('').toUpperCase()
}

function PersonMenu() {
  const { name, email } = useSuspenseQuery(meQuery).data
  const leave = useSignOut()
  const menu = useRef<HTMLDivElement>(null)
  const close = () => menu.current!.hidePopover()
  return (
    <>
      <Button look="quiet" popoverTarget="person" aria-haspopup="menu" className={styles.person!}>
        <span className={styles.whole}>{name}</span>
        <span className={styles.initials} aria-hidden="true">
          {initialsOf(name)}
        </span>
      </Button>
      <div ref={menu} id="person" popover="auto" className={styles.menu}>
        <p className={styles.menuHead}>
          {name}
          <span className="faint">{email}</span>
        </p>
        <Link to="/settings/profile" className={styles.place} onClick={close}>
          Your profile
        </Link>
        <Link to="/settings/sessions" className={styles.place} onClick={close}>
          Your sessions
        </Link>
        <Button look="quiet" onClick={leave}>
          Sign out
        </Button>
      </div>
    </>
  )
}
