/**
 * Local services that page, limit and fail like the ones they are named after. Each holds its data, so that a test knows what
 * has to arrive, and can add to it between two runs.
 */
import { type ApiAnswer, type ApiRequest, type ApiServer, startApi } from './api-server.ts'

export type Row = Record<string, unknown>

export interface Service {
  api: ApiServer
  url: string
  close(): Promise<void>
}

/** The n-th minute of 2024, as APIs write it. */
export const minute = (n: number): string =>
  new Date(Date.UTC(2024, 0, 1) + n * 60_000).toISOString().replace('.000', '')

const rows = (count: number, make: (id: number) => Row, first = 1): Row[] =>
  Array.from({ length: count }, (_, index) => make(first + index))

const number = (request: ApiRequest, name: string, usual: number): number => Number(request.params.get(name) ?? usual)

function page(all: readonly Row[], start: number, size: number) {
  return { items: all.slice(start, start + size), more: start + size < all.length }
}

const serve = (api: ApiServer) => ({ api, url: api.url, close: () => api.close() })

export interface GithubService extends Service {
  issues: Row[]
  comments: Map<number, Row[]>
  addIssues(count: number): void
}

/** Link headers, `since`, comments below issues, a bearer token; one secondary rate limit, answered 403 with Retry-After. */
export async function startGithub({ issues: count = 250, token = 'ghp-secret' } = {}): Promise<GithubService> {
  const api = await startApi()
  const makeIssue = (id: number): Row => ({
    id: 1000 + id,
    number: id,
    title: `issue ${id}`,
    updated_at: minute(id),
    user: { login: `u${id % 5}` },
  })
  const issues = rows(count, makeIssue)
  const comments = new Map<number, Row[]>(
    issues
      .slice(0, 30)
      .map(({ number: n }) => [
        n as number,
        rows((n as number) % 4, (id) => ({ id: (n as number) * 100 + id, body: `c${id}` })),
      ]),
  )
  api.before = ({ headers }) =>
    headers.authorization === `Bearer ${token}` ? undefined : { status: 401, body: { message: 'Bad credentials' } }
  const linked = (request: ApiRequest, all: readonly Row[]): ApiAnswer => {
    const size = Math.min(100, number(request, 'per_page', 30))
    const at = number(request, 'page', 1)
    const { items, more } = page(all, (at - 1) * size, size)
    const next = new URL(`${api.url}${request.path}?${request.params}`)
    next.searchParams.set('page', String(at + 1))
    const headers = more ? { link: `<${next}>; rel="next", <${api.url}>; rel="last"` } : undefined
    return { body: items, ...(headers ? { headers } : {}) }
  }
  api.on('GET /repos/acme/shop/issues', (request) => {
    const since = request.params.get('since') ?? ''
    return linked(
      request,
      issues.filter(({ updated_at }) => (updated_at as string) >= since),
    )
  })
  api.on('GET /repos/acme/shop/issues/:number/comments', (request) =>
    linked(request, comments.get(Number(request.route.number)) ?? []),
  )
  const addIssues = (more: number): void => void issues.push(...rows(more, makeIssue, issues.length + 1))
  return { ...serve(api), issues, comments, addIssues }
}

export interface StripeService extends Service {
  charges: Row[]
  addCharges(count: number): void
}

/** The last id is the cursor, `has_more`, newest first, basic authentication with the key as user; 429 now and then. */
export async function startStripe({ charges: count = 230, key = 'sk_test_secret' } = {}): Promise<StripeService> {
  const api = await startApi()
  const make = (id: number): Row => ({
    id: `ch_${String(id).padStart(6, '0')}`,
    amount: id * 100,
    created: 1_700_000_000 + id * 60,
  })
  const charges = rows(count, make)
  const expected = `Basic ${Buffer.from(`${key}:`).toString('base64')}`
  api.before = ({ headers }) =>
    headers.authorization === expected ? undefined : { status: 401, body: { error: { message: 'Invalid API Key' } } }
  let asked = 0
  api.on('GET /v1/charges', (request) => {
    if (++asked % 3 === 2)
      return { status: 429, headers: { 'retry-after': '0' }, body: { error: { message: 'Too many requests' } } }
    const from = Number(request.params.get('created[gte]') ?? 0)
    const newest = charges.filter(({ created }) => (created as number) >= from).reverse()
    const after = request.params.get('starting_after')
    const start = after === null ? 0 : newest.findIndex(({ id }) => id === after) + 1
    const { items, more } = page(newest, start, number(request, 'limit', 10))
    return { body: { object: 'list', data: items, has_more: more, url: '/v1/charges' } }
  })
  return { ...serve(api), charges, addCharges: (more) => void charges.push(...rows(more, make, charges.length + 1)) }
}

export interface HubspotService extends Service {
  contacts: Row[]
}

/** `paging.next.after`, properties that a request names, at most 100 of them; an error now and then. */
export async function startHubspot({ contacts: count = 120, token = 'pat-secret' } = {}): Promise<HubspotService> {
  const api = await startApi()
  const contacts = rows(count, (id) => ({
    id: String(id),
    properties: {
      email: `p${id}@example.com`,
      lastmodifieddate: minute(id),
      ...(id % 2 === 0 ? { phone: `+1 ${id}` } : {}),
    },
    updatedAt: minute(id),
  }))
  let asked = 0
  api.before = ({ headers }) =>
    headers.authorization === `Bearer ${token}`
      ? undefined
      : { status: 401, body: { status: 'error', message: 'Authentication credentials not found' } }
  api.on('GET /crm/v3/objects/contacts', (request) => {
    if (++asked === 2) return { status: 502, body: '<html>bad gateway</html>', headers: { 'retry-after': '0' } }
    const start = number(request, 'after', 0)
    const { items, more } = page(contacts, start, number(request, 'limit', 10))
    const wanted = request.params.get('properties')?.split(',')
    const results = items.map((item) => ({
      ...item,
      properties: Object.fromEntries(
        Object.entries(item.properties as Row).filter(([name]) => !wanted || wanted.includes(name)),
      ),
    }))
    return {
      body: { results, ...(more ? { paging: { next: { after: String(start + items.length), link: 'x' } } } : {}) },
    }
  })
  api.on('POST /crm/v3/objects/contacts/search', (request) => {
    const { after = '0', limit = 10 } = JSON.parse(request.body) as { after?: string; limit?: number }
    const { items, more } = page(contacts, Number(after), limit)
    return {
      body: {
        total: contacts.length,
        results: items,
        ...(more ? { paging: { next: { after: String(Number(after) + items.length) } } } : {}),
      },
    }
  })
  return { ...serve(api), contacts }
}

export interface NotionService extends Service {
  databases: Row[]
  pages: Map<string, Row[]>
}

/** POST with `start_cursor` in the body, a header with the version, pages below databases. */
export async function startNotion({
  databases: count = 3,
  pages: perDatabase = 45,
  token = 'secret_notion',
} = {}): Promise<NotionService> {
  const api = await startApi()
  const databases = rows(count, (id) => ({ object: 'database', id: `db-${id}` }))
  const pages = new Map(
    databases.map(({ id }) => [
      id as string,
      rows(perDatabase, (at) => ({ object: 'page', id: `${id}-p${at}`, last_edited_time: minute(at) })),
    ]),
  )
  api.before = ({ headers }) => {
    if (headers.authorization !== `Bearer ${token}`)
      return { status: 401, body: { object: 'error', message: 'API token is invalid.' } }
    return headers['notion-version']
      ? undefined
      : { status: 400, body: { object: 'error', message: 'Notion-Version header failed validation' } }
  }
  const listed = (request: ApiRequest, all: readonly Row[]): ApiAnswer => {
    const { start_cursor, page_size = 100 } = (request.body ? JSON.parse(request.body) : {}) as {
      start_cursor?: string
      page_size?: number
    }
    const start = start_cursor ? Number(start_cursor.slice(1)) : 0
    const { items, more } = page(all, start, page_size)
    return {
      body: { object: 'list', results: items, has_more: more, next_cursor: more ? `c${start + items.length}` : null },
    }
  }
  api.on('POST /v1/search', (request) => listed(request, databases))
  api.on('POST /v1/databases/:id/query', (request) => listed(request, pages.get(request.route.id!) ?? []))
  return { ...serve(api), databases, pages }
}

export interface PokeapiService extends Service {
  names: string[]
}

/** `next` addresses, offset and limit, and one object per detail path; no authentication. */
export async function startPokeapi({ pokemon: count = 65 } = {}): Promise<PokeapiService> {
  const api = await startApi()
  const names = rows(count, (id) => ({ name: `mon-${id}` })).map(({ name }) => name as string)
  api.on('GET /api/v2/pokemon', (request) => {
    const [offset, limit] = [number(request, 'offset', 0), number(request, 'limit', 20)]
    const { items, more } = page(
      names.map((name) => ({ name, url: `${api.url}/api/v2/pokemon/${name}/` })),
      offset,
      limit,
    )
    const next = more ? `${api.url}/api/v2/pokemon?offset=${offset + limit}&limit=${limit}` : null
    return { body: { count: names.length, next, previous: null, results: items } }
  })
  api.on('GET /api/v2/pokemon/:name', (request) => {
    const at = names.indexOf(request.route.name!)
    return at < 0
      ? { status: 404, body: 'Not Found' }
      : { body: { id: at + 1, name: names[at], weight: 12345678901234567890n.toString() } }
  })
  return { ...serve(api), names }
}

export interface TreeService extends Service {
  tasks: Row[]
}

/** Organizations, their projects, their tasks; each level has pages, some are empty, one is gone. */
export async function startTree({ organizations = 4, projects = 7, tasks: perProject = 9 } = {}): Promise<TreeService> {
  const api = await startApi()
  const orgs = rows(organizations, (id) => ({ id, name: `org ${id}` }))
  const tasks: Row[] = []
  const byProject = new Map<string, Row[]>()
  for (const { id: org } of orgs)
    for (let project = 1; project <= projects; project++) {
      const own = rows(project === 3 ? 0 : perProject, (id) => ({ id: `${org}/${project}/${id}`, done: id % 2 === 0 }))
      byProject.set(`${org}/${project}`, own)
      if (!(org === 2 && project === 2)) tasks.push(...own)
    }
  const paged = (request: ApiRequest, all: readonly Row[]): ApiAnswer => {
    const at = number(request, 'page', 1)
    const { items } = page(all, (at - 1) * 3, 3)
    return { body: { data: items, page: at, total_pages: Math.ceil(all.length / 3) } }
  }
  api.on('GET /organizations', (request) => paged(request, orgs))
  api.on('GET /organizations/:org/projects', (request) =>
    paged(
      request,
      rows(projects, (id) => ({ id, org: Number(request.route.org) })),
    ),
  )
  api.on('GET /organizations/:org/projects/:project/tasks', (request) => {
    const { org, project } = request.route
    if (org === '2' && project === '2') return { status: 404, body: { message: 'gone' } }
    return paged(request, byProject.get(`${org}/${project}`) ?? [])
  })
  return { ...serve(api), tasks }
}

export interface EventsService extends Service {
  events: Row[]
}

/** The cursor is in a header. */
export async function startHeaderCursor({ events: count = 95 } = {}): Promise<EventsService> {
  const api = await startApi()
  const events = rows(count, (id) => ({ id, at: minute(id) }))
  api.on('GET /events', (request) => {
    const start = number(request, 'cursor', 0)
    const { items, more } = page(events, start, 10)
    return { body: items, ...(more ? { headers: { 'x-next-cursor': String(start + items.length) } } : {}) }
  })
  return { ...serve(api), events }
}

export interface LimitedService extends Service {
  items: Row[]
  /** Requests that came too early. */
  refused(): number
}

/** At most `calls` requests in `windowMs`; more are answered 429 with the wait in Retry-After and in `x-ratelimit-*`. */
export async function startLimited({ items: count = 60, calls = 5, windowMs = 1000 } = {}): Promise<LimitedService> {
  const api = await startApi()
  const items = rows(count, (id) => ({ id }))
  let start = 0
  let used = 0
  let refused = 0
  api.on('GET /items', (request) => {
    const now = Date.now()
    if (now - start >= windowMs) [start, used] = [now, 0]
    if (used >= calls) {
      refused++
      const seconds = Math.ceil((start + windowMs - now) / 1000)
      return {
        status: 429,
        headers: { 'retry-after': String(seconds), 'x-ratelimit-remaining': '0' },
        body: { message: 'slow down' },
      }
    }
    used++
    const at = number(request, 'page', 0)
    return { headers: { 'x-ratelimit-remaining': String(calls - used) }, body: { items: page(items, at * 5, 5).items } }
  })
  return { ...serve(api), items, refused: () => refused }
}

export interface ExportService extends Service {
  orders: Row[]
  /** Exports that were created, and those that were removed. */
  created(): number
  removed(): number
}

/** An export: created, ready after some polls, downloaded as CSV in two files, removed. */
export async function startExport({ orders: count = 40, polls = 2 } = {}): Promise<ExportService> {
  const api = await startApi()
  const orders = rows(count, (id) => ({ id: String(id), total: `${id}.50`, note: id % 3 === 0 ? 'say "hi", now' : '' }))
  const left = new Map<string, number>()
  let created = 0
  let removed = 0
  const csv = (all: readonly Row[]): string =>
    `id,total,note\r\n${all.map(({ id, total, note }) => `${id},${total},"${String(note).replaceAll('"', '""')}"\r\n`).join('')}`
  api.on('POST /exports', () => {
    const id = `job-${++created}`
    left.set(id, polls)
    return { status: 201, body: { id, status: 'queued' } }
  })
  api.on('GET /exports/:id', (request) => {
    const { id } = request.route
    const waits = left.get(id!)
    if (waits === undefined) return { status: 404, body: { message: 'no such export' } }
    left.set(id!, waits - 1)
    if (waits > 0) return { body: { id, status: 'running' } }
    return {
      body: { id, status: 'done', urls: [`${api.url}/exports/${id}/files/0`, `${api.url}/exports/${id}/files/1`] },
    }
  })
  api.on('GET /exports/:id/files/:part', (request) => {
    const half = Math.ceil(orders.length / 2)
    const part = Number(request.route.part)
    return { headers: { 'content-type': 'text/csv' }, body: csv(orders.slice(part * half, (part + 1) * half)) }
  })
  api.on('DELETE /exports/:id', () => {
    removed++
    return { status: 204, body: '' }
  })
  return { ...serve(api), orders, created: () => created, removed: () => removed }
}
