/** Settings that cannot be used are refused when they are saved, with the path of the setting. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { RestApiSettings } from '../../src/connectors/rest-api/settings.ts'
import { restApiSource } from '../../src/connectors/rest-api/source.ts'
import { maskSecrets, secretValues } from '../../src/connectors/settings/secrets.ts'
import { applyDefaults, findSettingsFaults } from '../../src/connectors/settings/settings.ts'
import { fingerprintOf } from '../../src/engine/fingerprint.ts'

type Config = Record<string, unknown>
const client = { base_url: 'https://api.example.com/v1' }
const endpoint = (given: object, more: object = {}): Config => ({
  client,
  resources: [{ name: 'a', endpoint: given, ...more }],
})

function faultOf(config: Config): string {
  const faults = findSettingsFaults(restApiSource.settings, config, 'config')
  if (faults.length > 0) return faults[0]!.replace(/^config\./, '')
  try {
    restApiSource.canonical!(applyDefaults(restApiSource.settings, config) as RestApiSettings, 'a')
  } catch (error) {
    return (error as Error).message
  }
  return 'none'
}

const cases: [name: string, config: Config, fault: RegExp | 'none'][] = [
  ['a name alone', { client, resources: ['a'] }, 'none'],
  [
    'a misspelt field',
    { client, resources: [{ name: 'a', endpont: {} }] },
    /^resources\[0\]\.endpont: unknown field; did you mean 'endpoint'/,
  ],
  ['no address', { client: {}, resources: ['a'] }, /^client\.base_url: is required/],
  [
    'an address with a password',
    { client: { base_url: 'https://u:p@x.com' }, resources: ['a'] },
    /^client\.base_url: must not hold/,
  ],
  ['two of one name', { client, resources: ['a', 'a'] }, /^resources\[1\]\.name: there are two/],
  ['nothing selected', { client, resources: [{ name: 'a', selected: false }] }, /^resources: none of them is selected/],
  [
    'an unknown paginator',
    endpoint({ paginator: 'page_numbr' }),
    /^resources\[0\]\.endpoint\.paginator: 'page_numbr' is not a paginator.*page_number/,
  ],
  [
    'a setting of another paginator',
    endpoint({ paginator: { type: 'json_link', limit: 5 } }),
    /paginator\.limit: is not a setting of the paginator json_link/,
  ],
  ['an offset without a limit', endpoint({ paginator: { type: 'offset' } }), /paginator\.limit: is required/],
  [
    'two places for a cursor',
    endpoint({ paginator: { type: 'cursor', cursor_param: 'a', cursor_body_path: 'b' } }),
    /cursor_body_path: cannot be given together/,
  ],
  [
    'pages without an end',
    endpoint({ paginator: { type: 'page_number', total_path: null, stop_after_empty_page: false } }),
    /paginator: nothing would end the pages/,
  ],
  [
    'a path that is a filter',
    endpoint({ data_selector: '$..book[?(@.price<10)]' }),
    /data_selector: '.*' is not a path/,
  ],
  ['two bodies', endpoint({ json: {}, data: 'x' }), /endpoint\.data: cannot be given together with json/],
  [
    'a secret among the headers',
    endpoint({ headers: { Authorization: 'Bearer x' } }),
    /headers\.Authorization: looks like a secret/,
  ],
  ['a secret among the parameters', endpoint({ params: { api_key: 'x' } }), /params\.api_key: looks like a secret/],
  [
    'a fault of the defaults',
    { client, resources: ['a', 'b'], resource_defaults: { endpoint: { paginator: { type: 'offset' } } } },
    /^resource_defaults\.endpoint\.paginator\.limit: is required/,
  ],
  [
    'a placeholder that is not closed',
    endpoint({ params: { q: 'x {a' } }),
    /endpoint\.params: \{\} stands for nothing/,
  ],
  ['a placeholder for nothing', endpoint({ path: 'x/{id}' }), /endpoint\.path: \{id\} stands for nothing/],
  ['a parameter in the path', endpoint({ path: 'x/{id}', params: { id: 5 } }), 'none'],
  [
    'a parent that is missing',
    endpoint({ path: 'x/{resources.b.id}' }),
    /refers to the resource b, which there is not/,
  ],
  [
    'parents of each other',
    {
      client,
      resources: [
        { name: 'a', endpoint: '{resources.b.id}/x' },
        { name: 'b', endpoint: '{resources.a.id}/x' },
      ],
    },
    /are parents of each other/,
  ],
  [
    'a resolved parameter that is not in the path',
    {
      client,
      resources: ['b', { name: 'a', endpoint: { params: { id: { type: 'resolve', resource: 'b', field: 'id' } } } }],
    },
    /params\.id: is not in the path/,
  ],
  [
    'fields of a parent without one',
    endpoint({}, { include_from_parent: ['id'] }),
    /include_from_parent: needs a parent/,
  ],
  [
    'Python as a conversion',
    endpoint({ incremental: { cursor_path: 'at', convert: 'lambda x: x' } }),
    /incremental\.convert: must be one of epoch_seconds.*Python functions are not executed/,
  ],
  [
    'Python as a step',
    endpoint({}, { processing_steps: [{ filter: 'lambda r: r' }] }),
    /processing_steps\[0\]\.filter: must be an object/,
  ],
  [
    'a step with two forms',
    endpoint({}, { processing_steps: [{ filter: { field: 'a', exists: true }, map: {} }] }),
    /processing_steps\[0\]: must have one of/,
  ],
  [
    'an end before the beginning',
    endpoint({ incremental: { cursor_path: 'id', initial_value: 5, end_value: 3 } }),
    /incremental\.end_value: must come after/,
  ],
  [
    'two incremental parameters',
    endpoint({
      params: { a: { type: 'incremental', cursor_path: 'x' }, b: { type: 'incremental', cursor_path: 'x' } },
    }),
    /params\.b: only one parameter/,
  ],
  [
    'an action without a condition',
    endpoint({ response_actions: [{ action: 'ignore' }] }),
    /response_actions\[0\]: needs status_code/,
  ],
  [
    'an unknown authentication',
    { client: { ...client, auth: { type: 'kerberos' } }, resources: ['a'] },
    /^client\.auth\.type: 'kerberos' is not a type/,
  ],
  [
    'a missing secret',
    { client: { ...client, auth: { type: 'api_key' } }, resources: ['a'] },
    /^client\.auth\.api_key: is required for api_key/,
  ],
  [
    'a key in an odd place',
    { client: { ...client, auth: { type: 'api_key', api_key: 'x', location: 'body' } }, resources: ['a'] },
    /^client\.auth\.location: 'body'/,
  ],
]

describe('the settings of rest_api', () => {
  for (const [name, config, expected] of cases)
    it(`${expected === 'none' ? 'accept' : 'refuse'} ${name}`, () => {
      if (expected === 'none') assert.equal(faultOf(config), 'none')
      else assert.match(faultOf(config), expected)
    })

  it('mask the secrets of the client and give them to the redaction of logs', () => {
    const config = {
      client: {
        ...client,
        headers: { 'X-Key': 'header-secret' },
        auth: { type: 'http_basic', username: 'ada', password: 'pass-secret' },
      },
      resources: ['a'],
    }
    assert.doesNotMatch(JSON.stringify(maskSecrets(restApiSource.settings, config)), /header-secret|pass-secret/)
    assert.deepEqual(secretValues(restApiSource.settings, config).sort(), ['header-secret', 'pass-secret'])
  })

  it('keep the state where only the way of reading changes, and start over where the data does', () => {
    const print = (config: Config) =>
      fingerprintOf(
        {
          source: { name: 'rest_api', stream: 'a', config },
          destination: { name: 'file', config: {} },
          sync: { cursor_field: null },
        },
        null,
      ).source
    const first = print(endpoint({ path: 'orders' }))
    const paged = { client: { ...client, base_url: `${client.base_url}/`, auth: { token: 'x' } }, requests_at_once: 2 }
    assert.equal(
      first,
      print({ ...paged, resources: ['b', { name: 'a', endpoint: { path: 'orders', paginator: 'json_link' } }] }),
    )
    assert.notEqual(first, print(endpoint({ path: 'invoices' })))
    assert.notEqual(first, print(endpoint({ path: 'orders', params: { status: 'open' } })))
  })

  for (const name of ['token', 'key', 'X-Auth-Token', 'apikey', 'api_key_v2', 'DD-API-KEY', 'X-Shopify-Access-Token'])
    it(`refuse the secret ${name} wherever a request can hold it`, () => {
      const refused = /looks like a secret, which is not protected here; use client\.auth/
      assert.match(faultOf(endpoint({ params: { [name]: 'x' } })), refused)
      assert.match(faultOf(endpoint({ params: { [name]: ['x'] } })), refused)
      assert.match(faultOf(endpoint({ headers: { [name]: 'x' } })), refused)
      assert.match(faultOf(endpoint({ path: `rows?a=1&${name}=x` })), refused)
      const defaults = { endpoint: { params: { [name]: 'x' } } }
      assert.match(faultOf({ client, resources: ['a'], resource_defaults: defaults }), refused)
      if (name === 'key') return
      assert.match(faultOf(endpoint({ json: { a: [{ [name]: 'x' }] } })), refused)
      assert.match(faultOf(endpoint({ data: { [name]: 'x' } })), refused)
      assert.match(faultOf(endpoint({ data: `a=1&${name}=x` })), refused)
    })

  it('name the place of a secret, and never its value', () => {
    assert.match(
      faultOf(endpoint({ json: { login: { password: 'hidden' } } })),
      /^resources\[0\]\.endpoint\.json\.login\.password: /,
    )
    assert.doesNotMatch(faultOf(endpoint({ data: 'password=hidden' })), /hidden/)
  })

  it('accept names that only resemble a secret, and values that are not in the settings', () => {
    const names = [
      'page_token',
      'next_token',
      'sync_token',
      'sort_key',
      'primary_key',
      'key_id',
      'keys',
      'api_key_id',
      'author',
    ]
    const values = Object.fromEntries(names.map((name) => [name, 'x']))
    assert.equal(faultOf(endpoint({ params: values, headers: values, json: values })), 'none')
    assert.equal(faultOf(endpoint({ json: { filters: [{ key: 'status', value: 'open' }] } })), 'none')
    const resources = ['b', { name: 'a', endpoint: { params: { token: '{resources.b.token}' } } }]
    assert.equal(faultOf({ client, resources }), 'none')
  })

  it('have the same fingerprint in every release, so that no pipeline starts over', () => {
    const config = {
      client: { ...client, auth: { token: 'x' }, paginator: 'json_link' },
      resource_defaults: {
        primary_key: 'id',
        endpoint: {
          params: { per_page: 100, state: 'all' },
          json: { a: [1, '{resources.posts.id}'], b: 2 },
          method: 'post',
          data_selector: 'data',
        },
        processing_steps: [{ map: { remove: ['x'] } }],
      },
      resources: [
        {
          name: 'posts',
          selected: false,
          endpoint: {
            json: { a: null },
            params: { state: 'open', since: { type: 'incremental', cursor_path: 'updated_at' } },
          },
        },
        'tags',
        {
          name: 'comments',
          endpoint: {
            path: 'posts/{id}/comments',
            params: { id: { type: 'resolve', resource: 'posts', field: 'id' } },
            json: { b: 3 },
          },
          include_from_parent: ['id'],
        },
      ],
    }
    const print = (stream: string) =>
      fingerprintOf(
        {
          source: { name: 'rest_api', stream, config },
          destination: { name: 'file', config: {} },
          sync: { cursor_field: null },
        },
        null,
      ).source
    assert.deepEqual(['posts', 'tags', 'comments'].map(print), [
      '4NOqWvTjG3Gix0hHVpGSqw',
      'yKdMYDU8Ico5PYnqjyAqKW',
      'W8hEPcCad4hY672vA0hk4x',
    ])
  })
})
