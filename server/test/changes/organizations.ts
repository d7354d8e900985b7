/** Organizations and edits of them, made from a seed: what the properties of plan, apply and export are tried with. */
import fc from 'fast-check'

export interface Objects {
  domains: Record<string, unknown>[]
  sources: Record<string, unknown>[]
  connections: Record<string, unknown>[]
  pipelines: Record<string, unknown>[]
}

/** Names that are hard to write: in YAML, in file names, in SQL, in variables. */
const hardNames = [
  '../x',
  '/etc/passwd',
  '.',
  '..',
  'con',
  'a/b\\c',
  'yes',
  '0x1f',
  '1e3',
  '~',
  'null',
  '- item',
  'key: value',
  '# comment',
  "it's",
  '"quoted"',
  'Ärger & Söhne',
  'Ω≈ç√',
  'Заказы',
  'CaseClash',
  'caseclash',
  'trailing ',
  ' leading',
  'line\nbreak',
  'tab\there',
  `\${HOME}`,
  `$\${HOME}`,
  'x'.repeat(200),
  'é'.repeat(200),
  'sluice api key',
  '%2e%2e',
  'a:b',
  'emoji 😀',
]

const name = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...hardNames) },
  fc.stringMatching(/^[a-z][a-z0-9 _-]{0,12}[a-z0-9]$/),
)
const description = fc.option(fc.oneof(name, fc.constantFrom('multi\nline\n', '  indented', 'colon: here', '')), {
  nil: undefined,
})
const secret = fc.oneof(
  fc.stringMatching(/^[ -~]{1,20}$/),
  fc.constantFrom(`\${NOT_A_REFERENCE}`, 'päss wörd', '"', '\\', '1234', 'true', 'a\nb'),
)

const without = (object: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined))

const domain = fc.record({
  name: name.map((text) => text.trim()),
  description,
  color: fc.option(fc.constantFrom('#aabbcc', '#001122'), { nil: undefined }),
})

const restSource = fc
  .record({ token: secret, header: fc.option(fc.constantFrom('X-Key', 'Authorization'), { nil: undefined }) })
  .map(({ token, header }) => ({
    authentication: { type: 'api_key', params: without({ token, header }) },
    config: {
      client: { base_url: 'https://api.example.com' },
      resources: [{ name: 'orders', endpoint: { path: '/orders' } }],
    },
  }))
const postgres = fc
  .record({ password: secret, port: fc.integer({ min: 1, max: 65535 }) })
  .map(({ password, port }) => ({
    host: 'db.example.com',
    port,
    database: 'shop',
    user: 'reader',
    password,
  }))

const connection = fc.oneof(
  fc
    .record({ name, description, config: restSource })
    .map((given) => ({ ...given, type: 'source', connector_name: 'rest_api' })),
  fc
    .record({ name, description, config: postgres })
    .map(({ config, ...given }) => ({ ...given, type: 'source', connector_name: 'postgres', config: { config } })),
  fc
    .record({ name, description, config: postgres })
    .map((given) => ({ ...given, type: 'destination', connector_name: 'postgres' })),
)

const pipeline = fc.record({
  name,
  domain: fc.option(fc.nat(), { nil: undefined }),
  schedule: fc.option(fc.constantFrom('0 * * * *', '*/5 1-3 * * MON'), { nil: undefined }),
  timezone: fc.option(fc.constantFrom('Europe/Berlin', 'America/New_York'), { nil: undefined }),
  enabled: fc.option(fc.constant(false), { nil: undefined }),
  records: fc.integer({ min: 1, max: 100 }),
  connection: fc.option(fc.nat(), { nil: undefined }),
  incremental: fc.boolean(),
  rename: fc.dictionary(fc.constantFrom('a.b', 'c', '__x', 'yes'), fc.constantFrom('d', 'e'), { maxKeys: 1 }),
})

const distinct = <T extends Record<string, unknown>>(keyOf: (object: T) => string) => ({ selector: keyOf })

/** References are made to fit: what a number points to is chosen among what there is. */
export const organization = fc
  .record({
    domains: fc.uniqueArray(domain, { maxLength: 3, ...distinct(({ name }) => String(name)) }),
    connections: fc.uniqueArray(connection, { maxLength: 4, ...distinct(({ type, name }) => `${type} ${name}`) }),
    pipelines: fc.uniqueArray(pipeline, { maxLength: 6, ...distinct(({ name }) => String(name)) }),
  })
  .map(({ domains, connections, pipelines }): Objects => {
    const sources = connections.filter(({ type }) => type === 'source')
    const destinations = connections.filter(({ type }) => type === 'destination')
    return {
      domains: domains.map(without),
      sources: [],
      connections: connections.map(without),
      pipelines: pipelines.map(({ domain: place, records, connection: used, incremental, rename, ...given }) => {
        const source = used === undefined || sources.length === 0 ? null : sources[used % sources.length]!
        const destination =
          used === undefined || destinations.length === 0 ? null : destinations[used % destinations.length]!
        const config = {
          source: source
            ? { connection: source.name, stream: source.connector_name === 'rest_api' ? 'orders' : 'public.orders' }
            : { name: 'dummy', stream: 'creatures', config: { records } },
          destination: destination ? { connection: destination.name, config: { table: 'orders' } } : { name: 'file' },
          ...(!source && incremental && { sync: { mode: 'incremental', write: 'append' } }),
          ...(Object.keys(rename).length > 0 && { columns: { rename } }),
        }
        const domainName =
          place === undefined || domains.length === 0 ? undefined : domains[place % domains.length]!.name
        return without({ ...given, domain: domainName, config })
      }),
    }
  })
