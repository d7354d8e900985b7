/** A browser of a few lines: it keeps cookies per host and follows redirects until it reaches the frontend. */
import type { App } from '../../src/http/app-type.ts'

export interface Visit {
  status: number
  url: URL
  body: string
  /** Every address that was visited, the last one included. */
  trail: string[]
}

export class Browser {
  readonly #app: App
  readonly #publicUrl: string
  readonly #frontendUrl: string
  readonly cookies = new Map<string, Map<string, string>>()
  /** The cookies of our service as they were set, with their attributes. */
  readonly setCookies: string[] = []

  constructor(app: App, addresses: { PUBLIC_URL: string; FRONTEND_URL: string }) {
    this.#app = app
    this.#publicUrl = addresses.PUBLIC_URL
    this.#frontendUrl = addresses.FRONTEND_URL
  }

  async request(
    address: string,
    init: { method?: 'GET' | 'DELETE'; headers?: Record<string, string> } = {},
  ): Promise<{ status: number; location: string | null; body: string }> {
    const url = new URL(address)
    const jar = this.cookies.get(url.hostname) ?? new Map<string, string>()
    this.cookies.set(url.hostname, jar)
    const headers = { ...init.headers, cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') }
    const answer = url.href.startsWith(this.#publicUrl)
      ? await this.#inject(url, init.method ?? 'GET', headers)
      : await this.#fetch(url, headers)
    for (const cookie of answer.cookies) keepCookie(jar, cookie)
    return answer
  }

  async #inject(url: URL, method: 'GET' | 'DELETE', headers: Record<string, string>) {
    const response = await this.#app.inject({ method, url: `${url.pathname}${url.search}`, headers })
    const cookies = [response.headers['set-cookie'] ?? []].flat()
    this.setCookies.push(...cookies)
    return { status: response.statusCode, location: response.headers.location ?? null, body: response.body, cookies }
  }

  async #fetch(url: URL, headers: Record<string, string>) {
    const response = await fetch(url, { headers, redirect: 'manual' })
    const location = response.headers.get('location')
    return { status: response.status, location, body: await response.text(), cookies: response.headers.getSetCookie() }
  }

  /** Follows redirects; `until` stops before an address is visited. */
  async visit(address: string, until: (url: URL) => boolean = () => false): Promise<Visit> {
    const trail = [address]
    for (let url = new URL(address); ; ) {
      if (trail.length > 1 && (url.href.startsWith(this.#frontendUrl) || until(url)))
        return { status: 0, url, body: '', trail }
      const { status, location, body } = await this.request(url.href)
      if (location === null) return { status, url, body, trail }
      url = new URL(location, url)
      trail.push(url.href)
    }
  }
}

function keepCookie(jar: Map<string, string>, cookie: string): void {
  const [pair = '', ...attributes] = cookie.split(';').map((part) => part.trim())
  const at = pair.indexOf('=')
  const gone = attributes.some(
    (attribute) => /^max-age=0$/i.test(attribute) || /^expires=Thu, 01 Jan 1970/i.test(attribute),
  )
  if (gone) jar.delete(pair.slice(0, at))
  else jar.set(pair.slice(0, at), pair.slice(at + 1))
}

export const fragmentOf = (url: URL): Record<string, string> =>
  Object.fromEntries(new URLSearchParams(url.hash.slice(1)))
