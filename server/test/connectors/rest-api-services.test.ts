/** rest_api against services that behave like real ones: what they hold arrives once, also after a crash in the middle. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Sync } from '../../src/connectors/contract.ts'
import type { Job } from '../../src/engine/execute.ts'
import * as services from '../harness/api-services.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'

type Row = Record<string, unknown>

describe('rest_api', () => {
  let bench: RunBench
  before(async () => {
    bench = await openRunBench()
  })
  after(() => bench.close())

  const jobOf = (stream: string, config: object, sync: Partial<Sync> = {}): Job =>
    bench.job({ source: { name: 'rest_api', stream, config: config as Row }, destination: { name: 'file' }, sync })
  const rowsOf = async (job: Job): Promise<{ rows: Row[]; outcome: Awaited<ReturnType<RunBench['run']>> }> => {
    const outcome = await bench.run(job)
    const lines = (await bench.readOutput(outcome)).toString().split('\n').slice(0, -1)
    return { outcome, rows: lines.map((line) => JSON.parse(line)) }
  }
  const ids = (rows: readonly Row[], field = 'id'): unknown[] => rows.map((row) => row[field]).sort()

  /** Crashes after a few checkpoints, resumes, and expects every record once. */
  async function readWithCrashes(stream: string, config: object, expected: unknown[], field = 'id'): Promise<void> {
    for (const nth of [1, 3]) {
      const doomed = jobOf(stream, config)
      assert.ok(await bench.crash(doomed, 'commit:after', nth, { checkpointRecords: 1 }), `checkpoint ${nth}`)
      const { rows } = await rowsOf(bench.again(doomed))
      assert.deepEqual(ids(rows, field), [...expected].sort(), `after checkpoint ${nth}`)
    }
  }

  describe('GitHub: Link headers, since, comments below issues', () => {
    let github: services.GithubService
    before(async () => {
      github = await services.startGithub()
    })
    after(() => github.close())
    const config = () => ({
      client: {
        base_url: `${github.url}/repos/acme/shop`,
        auth: { type: 'bearer', token: 'ghp-secret' },
        paginator: 'header_link',
      },
      resource_defaults: { primary_key: 'id', endpoint: { params: { per_page: 20 } } },
      resources: [
        {
          name: 'issues',
          endpoint: {
            path: 'issues',
            incremental: { cursor_path: 'updated_at', initial_value: services.minute(0), start_param: 'since' },
          },
        },
        {
          name: 'comments',
          endpoint: { path: 'issues/{resources.issues.number}/comments' },
          include_from_parent: ['number'],
        },
      ],
    })

    it('reads issues once, from the first run through crashes to an incremental one', async () => {
      await readWithCrashes('issues', config(), ids(github.issues))
      const sync = { mode: 'incremental', write: 'append' } as const
      const first = jobOf('issues', config(), sync)
      const { rows, outcome } = await rowsOf(first)
      assert.deepEqual(ids(rows), ids(github.issues))
      github.addIssues(25)
      const second = bench.next(first, outcome)
      assert.ok(await bench.crash(second, 'commit:after', 1, { checkpointRecords: 1 }), 'an incremental run crashes')
      const later = await rowsOf(bench.again(second))
      assert.deepEqual(ids([...rows, ...later.rows]), ids(github.issues))
      assert.equal((await rowsOf(bench.next(second, later.outcome))).rows.length, 0)
      assert.match(JSON.stringify(later.outcome.cursor), /"cursor":"2024-01-01T04:35:00Z"/)
    })

    it('reads the comments of every issue, with the number of the issue', async () => {
      const expected = [...github.comments].flatMap(([number, rows]) =>
        rows.map((row) => ({ ...row, _issues_number: number })),
      )
      const { rows } = await rowsOf(jobOf('comments', config()))
      const byId = (all: Row[]) => all.sort((a, b) => (a.id as number) - (b.id as number))
      assert.deepEqual(byId(rows), byId(expected))
      await readWithCrashes('comments', config(), ids(expected))
    })

    it('a wrong token is a failure of kind auth with what the API says', async () => {
      const wrong = config()
      wrong.client.auth.token = 'ghp-other'
      await assert.rejects(bench.run(jobOf('issues', wrong)), /401: Bad credentials/)
    })
  })

  it('Stripe: the last id as cursor, newest first, basic authentication, 429 now and then', async () => {
    const stripe = await services.startStripe()
    const config = {
      client: { base_url: stripe.url, auth: { type: 'http_basic', username: 'sk_test_secret', password: '' } },
      resources: [
        {
          name: 'charges',
          endpoint: {
            path: 'v1/charges',
            params: { limit: 25 },
            data_selector: 'data',
            paginator: {
              type: 'cursor',
              cursor_path: 'data[-1].id',
              cursor_param: 'starting_after',
              has_more_path: 'has_more',
            },
            incremental: { cursor_path: 'created', start_param: 'created[gte]', row_order: 'desc' },
          },
        },
      ],
    }
    try {
      await readWithCrashes('charges', config, ids(stripe.charges))
      const first = jobOf('charges', config, { mode: 'incremental', write: 'append' })
      const earlier = await rowsOf(first)
      stripe.addCharges(40)
      stripe.api.requests.length = 0
      const later = await rowsOf(bench.next(first, earlier.outcome))
      assert.deepEqual(ids([...earlier.rows, ...later.rows]), ids(stripe.charges))
      assert.ok(stripe.api.requests.length < 8, 'reads no further than what it knows')
    } finally {
      await stripe.close()
    }
  })

  it('HubSpot: a cursor deep in the body, a 502, steps over the records, and pages by POST', async () => {
    const hubspot = await services.startHubspot()
    const search = { type: 'cursor', cursor_path: 'paging.next.after', cursor_body_path: 'after' }
    const config = {
      client: { base_url: `${hubspot.url}/crm/v3/objects`, headers: { Authorization: 'Bearer pat-secret' } },
      resources: [
        {
          name: 'contacts',
          endpoint: {
            path: 'contacts',
            params: { limit: 20, properties: 'email' },
            data_selector: 'results',
            paginator: { type: 'cursor', cursor_path: 'paging.next.after', cursor_param: 'after' },
          },
          processing_steps: [
            { filter: { field: 'id', not_in: ['1', '2'] } },
            { map: { rename: { updatedAt: 'updated_at' }, set: { 'properties.source': 'crm' } } },
          ],
        },
        {
          name: 'found',
          endpoint: { path: 'contacts/search', method: 'POST', json: { limit: 50 }, paginator: search },
        },
      ],
    }
    try {
      const { rows } = await rowsOf(jobOf('contacts', config))
      assert.equal(rows.length, 118)
      assert.deepEqual(rows[0], {
        id: '3',
        properties: { email: 'p3@example.com', source: 'crm' },
        updated_at: services.minute(3),
      })
      await readWithCrashes('found', config, ids(hubspot.contacts))
    } finally {
      await hubspot.close()
    }
  })

  it('Notion: POST with the cursor in the body, a header with the version, pages below databases', async () => {
    const notion = await services.startNotion()
    const paginator = { type: 'cursor', cursor_path: 'next_cursor', cursor_body_path: 'start_cursor' }
    const config = {
      client: {
        base_url: `${notion.url}/v1`,
        auth: { token: 'secret_notion' },
        headers: { 'Notion-Version': '2022-06-28' },
        paginator,
      },
      resource_defaults: { endpoint: { method: 'POST', data_selector: 'results', json: { page_size: 10 } } },
      resources: [
        { name: 'databases', endpoint: 'search' },
        {
          name: 'pages',
          endpoint: {
            path: 'databases/{database}/query',
            params: { database: { type: 'resolve', resource: 'databases', field: 'id' } },
          },
        },
      ],
    }
    try {
      await readWithCrashes(
        'pages',
        config,
        [...notion.pages.values()].flatMap((pages) => ids(pages)),
      )
    } finally {
      await notion.close()
    }
  })

  it('PokéAPI: addresses of next pages, one object for each, nothing set that can be found out', async () => {
    const pokeapi = await services.startPokeapi()
    const config = {
      client: { base_url: `${pokeapi.url}/api/v2/` },
      resources: ['pokemon', { name: 'details', endpoint: 'pokemon/{resources.pokemon.name}' }],
    }
    try {
      await readWithCrashes('pokemon', config, pokeapi.names, 'name')
      const { rows } = await rowsOf(jobOf('details', config))
      assert.deepEqual(ids(rows, 'name'), [...pokeapi.names].sort())
    } finally {
      await pokeapi.close()
    }
  })

  it('three levels deep, with empty parents and one that is gone', async () => {
    const tree = await services.startTree()
    const config = {
      client: { base_url: tree.url, paginator: { type: 'page_number', base_page: 1, total_path: 'total_pages' } },
      resource_defaults: { endpoint: { data_selector: 'data' } },
      resources: [
        { name: 'organizations', selected: false },
        { name: 'projects', endpoint: 'organizations/{resources.organizations.id}/projects' },
        {
          name: 'tasks',
          endpoint: {
            path: 'organizations/{resources.projects.org}/projects/{resources.projects.id}/tasks',
            response_actions: [{ status_code: 404, content: 'gone', action: 'ignore' }],
          },
        },
      ],
    }
    try {
      await readWithCrashes('tasks', config, ids(tree.tasks))
    } finally {
      await tree.close()
    }
  })

  it('a cursor in a header', async () => {
    const events = await services.startHeaderCursor()
    const config = {
      client: { base_url: events.url, paginator: { type: 'header_cursor', cursor_key: 'X-Next-Cursor' } },
      resources: ['events'],
    }
    try {
      await readWithCrashes('events', config, ids(events.events))
    } finally {
      await events.close()
    }
  })

  it('a rate limit: waits as it is told, says so, and reads everything once', async () => {
    const limited = await services.startLimited()
    const config = {
      client: { base_url: limited.url, paginator: { type: 'page_number', total_path: null } },
      resources: [{ name: 'items', endpoint: { data_selector: 'items' } }],
    }
    try {
      const attempt = bench.start(jobOf('items', config))
      const outcome = await attempt.done
      const rows = (await bench.readOutput(outcome)).toString().trim().split('\n')
      assert.deepEqual(
        rows.map((row) => JSON.parse(row).id),
        limited.items.map(({ id }) => id),
      )
      assert.ok(limited.refused() > 0 && limited.refused() < 20, `${limited.refused()} requests came too early`)
      assert.ok(
        attempt.log.some((line) => /answered 429; the request is sent again in 1 s/.test(line)),
        attempt.log.join('\n'),
      )
    } finally {
      await limited.close()
    }
  })
})
