/** Manifests against services that behave like real ones: what they hold arrives once, also after a crash in the middle. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Sync } from '../../src/connectors/contract.ts'
import type { Job } from '../../src/engine/execute.ts'
import { startApi } from '../harness/api-server.ts'
import * as services from '../harness/api-services.ts'
import { startAuthServer } from '../harness/auth-server.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'

type Row = Record<string, unknown>

const parameter = (field_name: string) => ({ type: 'RequestOption', inject_into: 'request_parameter', field_name })
const selector = (...field_path: string[]) => ({ extractor: { type: 'DpathExtractor', field_path } })
const schema = { type: 'InlineSchemaLoader', schema: { type: 'object', properties: {} } }

function manifestOf(streams: object[], more: object = {}): string {
  return JSON.stringify({ version: '6.0.0', type: 'DeclarativeSource', streams, ...more })
}

describe('manifest', () => {
  let bench: RunBench
  before(async () => {
    bench = await openRunBench()
  })
  after(() => bench.close())

  const jobOf = (stream: string, config: object, sync: Partial<Sync> = {}): Job =>
    bench.job({ source: { name: 'manifest', stream, config: config as Row }, destination: { name: 'file' }, sync })
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

  it('GitHub: Link headers, since, comments below issues', async () => {
    const github = await services.startGithub()
    try {
      const requester = (path: string) => ({
        type: 'HttpRequester',
        url_base: "{{ config['url'] }}/repos/acme/shop",
        path,
        request_parameters: { per_page: '20' },
        authenticator: { type: 'BearerAuthenticator', api_token: "{{ config['token'] }}" },
      })
      const paginator = {
        type: 'DefaultPaginator',
        page_token_option: { type: 'RequestPath' },
        pagination_strategy: {
          type: 'CursorPagination',
          cursor_value: "{{ headers['Link']['next']['url'] }}",
          stop_condition: "{{ 'next' not in headers['Link'] }}",
        },
      }
      const issues = {
        name: 'issues',
        primary_key: 'id',
        schema_loader: schema,
        retriever: { requester: requester('issues'), record_selector: selector(), paginator },
        incremental_sync: {
          type: 'DatetimeBasedCursor',
          cursor_field: 'updated_at',
          datetime_format: '%Y-%m-%dT%H:%M:%SZ',
          start_datetime: "{{ config['start'] }}",
          start_time_option: parameter('since'),
        },
      }
      const comments = {
        name: 'comments',
        schema_loader: schema,
        retriever: {
          requester: requester("issues/{{ stream_partition['number'] }}/comments"),
          record_selector: selector(),
          paginator,
          partition_router: {
            type: 'SubstreamPartitionRouter',
            parent_stream_configs: [{ stream: issues, parent_key: 'number', partition_field: 'number' }],
          },
        },
        transformations: [
          { type: 'AddFields', fields: [{ path: ['issue'], value: "{{ stream_partition['number'] }}" }] },
        ],
      }
      const config = {
        manifest: manifestOf([issues, comments]),
        settings: { url: github.url, token: 'ghp-secret', start: services.minute(0) },
      }
      await readWithCrashes('issues', config, ids(github.issues))
      const first = jobOf('issues', config, { mode: 'incremental', write: 'append' })
      const { rows, outcome } = await rowsOf(first)
      assert.deepEqual(ids(rows), ids(github.issues))
      github.addIssues(25)
      const second = bench.next(first, outcome)
      assert.ok(await bench.crash(second, 'commit:after', 1, { checkpointRecords: 1 }), 'an incremental run crashes')
      const later = await rowsOf(bench.again(second))
      assert.deepEqual(ids([...rows, ...later.rows]), ids(github.issues))
      assert.equal((await rowsOf(bench.next(second, later.outcome))).rows.length, 0)
      const below = await rowsOf(jobOf('comments', config))
      const expected = [...github.comments].flatMap(([number, each]) => each.map(({ id }) => `${number}/${id}`))
      assert.deepEqual(below.rows.map(({ issue, id }) => `${issue}/${id}`).sort(), expected.sort())
    } finally {
      await github.close()
    }
  })

  it('PokéAPI: the address of the next page is in the body', async () => {
    const pokeapi = await services.startPokeapi()
    try {
      const pokemon = {
        name: 'pokemon',
        schema_loader: schema,
        retriever: {
          requester: { type: 'HttpRequester', url_base: "{{ config['url'] }}", path: '/api/v2/pokemon' },
          record_selector: selector('results'),
          paginator: {
            type: 'DefaultPaginator',
            page_token_option: { type: 'RequestPath' },
            pagination_strategy: {
              type: 'CursorPagination',
              cursor_value: '{{ response.next }}',
              stop_condition: '{{ not response.next }}',
            },
          },
        },
      }
      const config = { manifest: manifestOf([pokemon]), settings: { url: pokeapi.url } }
      const { rows } = await rowsOf(jobOf('pokemon', config))
      await readWithCrashes('pokemon', config, ids(rows, 'name'), 'name')
      assert.equal(new Set(ids(rows, 'name')).size, 65)
    } finally {
      await pokeapi.close()
    }
  })

  it('a cursor in a header', async () => {
    const events = await services.startHeaderCursor()
    try {
      const stream = {
        name: 'events',
        schema_loader: schema,
        retriever: {
          requester: { type: 'HttpRequester', url_base: "{{ config['url'] }}", path: 'events' },
          record_selector: selector(),
          paginator: {
            type: 'DefaultPaginator',
            page_token_option: parameter('cursor'),
            pagination_strategy: { type: 'CursorPagination', cursor_value: "{{ headers.get('X-Next-Cursor') or '' }}" },
          },
        },
      }
      const config = { manifest: manifestOf([stream]), settings: { url: events.url } }
      const { rows } = await rowsOf(jobOf('events', config))
      assert.equal(rows.length, 95)
      await readWithCrashes('events', config, ids(rows))
    } finally {
      await events.close()
    }
  })

  it('a parent and children three deep, where one branch is gone', async () => {
    const tree = await services.startTree()
    try {
      const level = (name: string, path: string, router?: object) => ({
        name,
        schema_loader: schema,
        retriever: {
          requester: {
            type: 'HttpRequester',
            url_base: "{{ config['url'] }}",
            path,
            error_handler: { response_filters: [{ http_codes: [404], action: 'IGNORE' }] },
          },
          record_selector: selector('data'),
          paginator: {
            type: 'DefaultPaginator',
            page_token_option: parameter('page'),
            pagination_strategy: { type: 'PageIncrement', start_from_page: 1, page_size: 3 },
          },
          ...(router && { partition_router: router }),
        },
      })
      const below = (stream: object, partition_field: string) => ({
        type: 'SubstreamPartitionRouter',
        parent_stream_configs: [{ stream, parent_key: 'id', partition_field }],
      })
      const organizations = level('organizations', 'organizations')
      const projects = level(
        'projects',
        "organizations/{{ stream_slice['org'] }}/projects",
        below(organizations, 'org'),
      )
      const tasks = level(
        'tasks',
        "organizations/{{ stream_slice.parent_slice.org }}/projects/{{ stream_slice['project'] }}/tasks",
        below(projects, 'project'),
      )
      const config = { manifest: manifestOf([organizations, projects, tasks]), settings: { url: tree.url } }
      const { rows } = await rowsOf(jobOf('tasks', config))
      assert.ok(rows.length > 100)
      await readWithCrashes('tasks', config, ids(rows))
    } finally {
      await tree.close()
    }
  })

  it('a rate limit that answers 429 is waited for', async () => {
    const limited = await services.startLimited()
    try {
      const items = {
        name: 'items',
        schema_loader: schema,
        retriever: {
          requester: {
            type: 'HttpRequester',
            url_base: "{{ config['url'] }}",
            path: 'items',
            error_handler: {
              type: 'DefaultErrorHandler',
              backoff_strategies: [{ type: 'WaitTimeFromHeader', header: 'Retry-After' }],
            },
          },
          record_selector: selector('items'),
          paginator: {
            type: 'DefaultPaginator',
            page_token_option: parameter('page'),
            pagination_strategy: { type: 'PageIncrement', page_size: 5, inject_on_first_request: true },
          },
        },
      }
      const config = { manifest: manifestOf([items]), settings: { url: limited.url } }
      const { rows } = await rowsOf(jobOf('items', config))
      assert.equal(new Set(ids(rows)).size, 60)
    } finally {
      await limited.close()
    }
  })

  it('Stripe: the last id is the cursor, newest first, 429 now and then', async () => {
    const stripe = await services.startStripe()
    try {
      const charges = {
        name: 'charges',
        primary_key: ['id'],
        schema_loader: schema,
        retriever: {
          requester: {
            type: 'HttpRequester',
            url_base: "{{ config['url'] }}/v1/",
            path: 'charges',
            authenticator: { type: 'BasicHttpAuthenticator', username: "{{ config['key'] }}" },
          },
          record_selector: selector('data'),
          paginator: {
            type: 'DefaultPaginator',
            page_token_option: parameter('starting_after'),
            page_size_option: parameter('limit'),
            pagination_strategy: {
              type: 'CursorPagination',
              cursor_value: "{{ last_record['id'] }}",
              stop_condition: '{{ not response.has_more }}',
              page_size: 20,
            },
          },
        },
        incremental_sync: {
          type: 'DatetimeBasedCursor',
          cursor_field: 'created',
          datetime_format: '%s',
          start_datetime: '1700000000',
          start_time_option: parameter('created[gte]'),
        },
      }
      const config = { manifest: manifestOf([charges]), settings: { url: stripe.url, key: 'sk_test_secret' } }
      await readWithCrashes('charges', config, ids(stripe.charges))
      const first = jobOf('charges', config, { mode: 'incremental', write: 'append' })
      const { rows, outcome } = await rowsOf(first)
      stripe.addCharges(30)
      const later = await rowsOf(bench.next(first, outcome))
      assert.deepEqual(ids([...rows, ...later.rows]), ids(stripe.charges))
    } finally {
      await stripe.close()
    }
  })

  it('HubSpot: paging.next.after, and an error now and then', async () => {
    const hubspot = await services.startHubspot()
    try {
      const contacts = {
        name: 'contacts',
        schema_loader: schema,
        retriever: {
          requester: {
            type: 'HttpRequester',
            url_base: "{{ config['url'] }}",
            path: '/crm/v3/objects/contacts',
            authenticator: {
              type: 'ApiKeyAuthenticator',
              api_token: "Bearer {{ config['token'] }}",
              inject_into: { type: 'RequestOption', inject_into: 'header', field_name: 'Authorization' },
            },
            error_handler: {
              type: 'CompositeErrorHandler',
              error_handlers: [
                {
                  type: 'DefaultErrorHandler',
                  backoff_strategies: [{ type: 'ConstantBackoffStrategy', backoff_time_in_seconds: 0 }],
                },
              ],
            },
          },
          record_selector: selector('results'),
          paginator: {
            type: 'DefaultPaginator',
            page_token_option: parameter('after'),
            pagination_strategy: {
              type: 'CursorPagination',
              cursor_value: "{{ response.get('paging', {}).get('next', {}).get('after') }}",
              stop_condition: "{{ not response.get('paging') }}",
            },
          },
        },
      }
      const config = { manifest: manifestOf([contacts]), settings: { url: hubspot.url, token: 'pat-secret' } }
      const { rows } = await rowsOf(jobOf('contacts', config))
      assert.equal(new Set(ids(rows)).size, 120)
      await readWithCrashes('contacts', config, ids(rows))
    } finally {
      await hubspot.close()
    }
  })

  it('an export: created, polled, downloaded as CSV in two files, removed', async () => {
    const exports = await services.startExport()
    try {
      const request = (http_method: string, path: string) => ({
        type: 'HttpRequester',
        http_method,
        url_base: "{{ config['url'] }}",
        path,
      })
      const at = (...field_path: string[]) => ({ type: 'DpathExtractor', field_path })
      const orders = {
        name: 'orders',
        schema_loader: schema,
        retriever: {
          type: 'AsyncRetriever',
          creation_requester: request('POST', 'exports'),
          polling_requester: request('GET', "exports/{{ creation_response['id'] }}"),
          download_requester: { type: 'HttpRequester', http_method: 'GET', url: '{{ download_target }}' },
          delete_requester: request('DELETE', "exports/{{ creation_response['id'] }}"),
          status_extractor: at('status'),
          status_mapping: { running: ['running', 'queued'], completed: ['done'], failed: ['failed'], timeout: [] },
          download_target_extractor: at('urls'),
          download_decoder: { type: 'CsvDecoder' },
          record_selector: { type: 'RecordSelector', extractor: at() },
        },
      }
      const config = { manifest: manifestOf([orders]), settings: { url: exports.url } }
      const { rows } = await rowsOf(jobOf('orders', config))
      assert.deepEqual(rows, exports.orders)
      assert.equal(exports.removed(), exports.created())
    } finally {
      await exports.close()
    }
  })

  it('Notion: POST with the cursor in the body, a header with the version, pages below databases', async () => {
    const notion = await services.startNotion()
    try {
      const retriever = (path: string) => ({
        requester: {
          type: 'HttpRequester',
          url_base: "{{ config['url'] }}/v1",
          path,
          http_method: 'POST',
          request_headers: { 'Notion-Version': '2022-06-28' },
          authenticator: { type: 'BearerAuthenticator', api_token: "{{ config['token'] }}" },
        },
        record_selector: selector('results'),
        paginator: {
          type: 'DefaultPaginator',
          page_size_option: { type: 'RequestOption', inject_into: 'body_json', field_name: 'page_size' },
          page_token_option: { type: 'RequestOption', inject_into: 'body_json', field_name: 'start_cursor' },
          pagination_strategy: {
            type: 'CursorPagination',
            page_size: 10,
            cursor_value: '{{ response.next_cursor }}',
            stop_condition: '{{ not response.has_more }}',
          },
        },
      })
      const databases = { name: 'databases', schema_loader: schema, retriever: retriever('search') }
      const pages = {
        name: 'pages',
        schema_loader: schema,
        retriever: {
          ...retriever("databases/{{ stream_partition['database'] }}/query"),
          partition_router: {
            type: 'SubstreamPartitionRouter',
            parent_stream_configs: [{ stream: databases, parent_key: 'id', partition_field: 'database' }],
          },
        },
      }
      const config = {
        manifest: manifestOf([databases, pages]),
        settings: { url: notion.url, token: 'secret_notion' },
      }
      const expected = [...notion.pages.values()].flatMap((each) => ids(each))
      await readWithCrashes('pages', config, expected)
    } finally {
      await notion.close()
    }
  })

  describe('OAuth with a refresh token', () => {
    const items = Array.from({ length: 30 }, (_, id) => ({ id }))
    let auth: Awaited<ReturnType<typeof startAuthServer>>
    let api: Awaited<ReturnType<typeof startApi>>
    before(async () => {
      auth = await startAuthServer()
      auth.guard('oauth2_refresh_token')
      api = await startApi()
      api.before = ({ headers }) => (auth.admits(headers) ? undefined : { status: 401, body: {} })
      api.on('GET /items', ({ params }) => {
        const start = Number(params.get('offset') ?? 0)
        return { body: items.slice(start, start + 5) }
      })
    })
    after(async () => {
      await api.close()
      await auth.close()
    })

    const configOf = (more: object = {}) => ({
      manifest: manifestOf([
        {
          name: 'items',
          schema_loader: schema,
          retriever: {
            requester: {
              type: 'HttpRequester',
              url_base: "{{ config['url'] }}",
              path: 'items',
              authenticator: {
                type: 'OAuthAuthenticator',
                token_refresh_endpoint: "{{ config['token_url'] }}",
                client_id: "{{ config['client_id'] }}",
                client_secret: "{{ config['client_secret'] }}",
                refresh_token: "{{ config['refresh_token'] }}",
                ...more,
              },
            },
            record_selector: selector(),
            paginator: {
              type: 'DefaultPaginator',
              page_token_option: parameter('offset'),
              pagination_strategy: { type: 'OffsetIncrement', page_size: 5 },
            },
          },
        },
      ]),
      settings: { url: api.url, ...auth.good('oauth2_refresh_token').params },
    })

    it('a killed attempt is resumed with a new access token', async () => {
      Object.assign(auth, { naming: 'form', rotates: false })
      await readWithCrashes('items', configOf(), ids(items))
    })

    // How a setting is replaced is tested in runs/manifest-tokens.test.ts.
    it('a replaced refresh token that no setting holds serves the attempt, and the log says that it is not stored', async () => {
      Object.assign(auth, { naming: 'form', rotates: true, tokenRequests: [] })
      const config = configOf({
        refresh_token: "{{ config['refresh_token'] | trim }}",
        refresh_token_updater: { refresh_token_config_path: ['elsewhere'] },
      })
      let requests = 0
      auth.onRequest = () => {
        if (++requests === 3) auth.expireTokens()
      }
      const attempt = bench.start(jobOf('items', config))
      const outcome = await attempt.done
      auth.onRequest = undefined
      assert.equal((await bench.readOutput(outcome)).toString().split('\n').length - 1, items.length)
      assert.ok(auth.tokenRequests.length > 1 && auth.tokenRequests.every(({ status }) => status === 200))
      const warnings = attempt.log.filter((line) => line.startsWith('warn') && line.includes('refresh token'))
      assert.equal(warnings.length, 1, attempt.log.join('\n'))
      assert.ok(!auth.secrets.some((secret) => attempt.log.join('\n').includes(secret)))
    })
  })
})
