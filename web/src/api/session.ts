/**
 * Who is signed in, shared by all tabs of the browser: the tokens are in local storage, and a change in one tab reaches
 * the others through its event. A refresh token can be used only once, so tabs take turns to renew: whoever gets the lock
 * second finds the new tokens there.
 *
 * A page belongs to one person in one organization. If the session ends, or another tab opens another organization, the
 * page stays as it is, its requests wait, and a dialog asks what to do: nothing that was typed is lost, and nothing is
 * saved into the wrong organization.
 */
import { type Place, parseStored, placeOf, type Tokens } from './stored-session.ts'

const KEY = 'sluice.session'
/** What other tabs find after a session has ended without the person's doing. */
const EXPIRED = '"expired"'
/** Renewed a little early, so that a request does not expire on its way. */
const EARLY_MS = 20_000

/** Why requests wait: the session has ended, or another tab has opened another organization. */
export type Obstacle = 'expired' | 'elsewhere'

let current: Tokens | null = parseStored(localStorage.getItem(KEY))
let obstacle: Obstacle | null = null
/** The person and organization whose page this is. */
let page = placeOf(current)
const listeners = new Set<() => void>()

export function getTokens(): Tokens | null {
  return current
}

/** The organization and the person of this page, as one text; null if nobody is signed in. */
export function getIdentity(): string | null {
  return current === null || page === null ? null : `${page.organization}.${page.person}`
}

export function getObstacle(): Obstacle | null {
  return obstacle
}

export function hasExpired(): boolean {
  return obstacle === 'expired'
}

/** For useSyncExternalStore. */
export function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Whose page this is, also while nobody is signed in: a request that waited must not be sent for somebody else. */
export function getPageIdentity(): string | null {
  return page === null ? null : `${page.organization}.${page.person}`
}

/** Returns whether the page that is shown belongs to whoever signed in; if not, it must be left. */
export function signIn({ access_token, refresh_token }: Omit<Tokens, 'expires_at'>): boolean {
  const place = placeOf({ access_token })
  const same = page === null || isSame(page, place)
  const tokens = { access_token, refresh_token, expires_at: Date.now() + (place?.lifetimeMs ?? 0) }
  localStorage.setItem(KEY, JSON.stringify(tokens))
  // Requests that wait on this page hold what was typed for its own organization, and go on waiting.
  if (!same && obstacle !== null) return false
  page = place
  change(tokens, null)
  return same
}

export function signOut(): void {
  page = null
  change(null, null)
  localStorage.removeItem(KEY)
}

/** A token that can be used now, or null if nobody is signed in. Waits for the person where only they can go on. */
export async function freshAccessToken(): Promise<string | null> {
  for (;;) {
    if (obstacle !== null) await nextChange()
    else if (current === null) return null
    else if (current.expires_at - EARLY_MS > Date.now()) return current.access_token
    else await renew(current.access_token)
  }
}

/** Replaces an access token that was refused or is about to expire. */
export async function renew(used: string): Promise<void> {
  await exclusively(async () => {
    adopt(localStorage.getItem(KEY))
    if (obstacle !== null || current === null || current.access_token !== used) return
    const response = await fetch('/api/auth/refresh', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ refresh_token: current.refresh_token }),
    })
    if (response.ok) signIn(await response.json())
    else if (response.status < 500 && response.status !== 429) expire()
    else throw new Error('The session could not be renewed')
  })
}

/** Tokens of the other organization become those of this tab too: the way back is a switch, which needs them. */
export function stayHere(): { organization_id: string; access_token: string } {
  const other = parseStored(localStorage.getItem(KEY))
  return { organization_id: page!.organization, access_token: other?.access_token ?? '' }
}

function expire(): void {
  localStorage.setItem(KEY, EXPIRED)
  change(null, 'expired')
}

/** Takes over what another tab has stored. */
function adopt(stored: string | null): void {
  const tokens = parseStored(stored)
  const place = placeOf(tokens)
  if (tokens === null && stored === EXPIRED && page !== null) {
    change(null, 'expired')
  } else if (tokens === null || page === null || isSame(page, place)) {
    page = place
    change(tokens, null)
  } else if (page.person === place?.person) {
    change(current, 'elsewhere')
  } else {
    // Another person must not find this one's page.
    location.assign('/')
  }
}

function isSame(one: Place | null, other: Place | null): boolean {
  return one?.person === other?.person && one?.organization === other?.organization
}

function change(tokens: Tokens | null, reason: Obstacle | null): void {
  current = tokens
  obstacle = reason
  for (const listener of [...listeners]) listener()
}

function nextChange(): Promise<void> {
  return new Promise((resolve) => {
    const stop = subscribe(() => {
      stop()
      resolve()
    })
  })
}

/** Web Locks exist only on https and localhost. Elsewhere tabs may collide, and one of them asks to sign in again. */
let own: Promise<unknown> = Promise.resolve()
function exclusively<T>(work: () => Promise<T>): Promise<T> {
  if (navigator.locks) return navigator.locks.request('sluice.renew', work) as Promise<T>
  const turn = own.then(work, work)
  own = turn.catch(() => {})
  return turn
}

addEventListener('storage', (event) => {
  if (event.key === KEY || event.key === null) adopt(localStorage.getItem(KEY))
})
