import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'
import { ConfigError, completeAddresses, describeConfig, readConfig } from '../../src/config/config.ts'
import { settings } from '../../src/config/settings.ts'

const problemsOf = (env: Record<string, string>): string[] => {
  try {
    readConfig(env)
  } catch (error) {
    assert.ok(error instanceof ConfigError)
    return error.problems
  }
  return []
}

test('no setting is required', () => {
  const config = readConfig({})
  assert.equal(config.PORT, 8080)
  assert.equal(config.PUBLIC_URL, 'http://127.0.0.1:8080')
  assert.equal(config.FRONTEND_URL, config.PUBLIC_URL)
  assert.equal(config.IDP_REDIRECT_URL, 'http://127.0.0.1:8080/api/auth/idp/callback')
  assert.equal(config.DATA_DIR, path.resolve('data'))
  assert.equal(config.JWT_ALGORITHM, 'HS256')
  assert.equal(config.JWT_ACCESS_TOKEN_EXPIRE_MINUTES, 1440)
  assert.equal(config.JWT_REFRESH_TOKEN_EXPIRE_DAYS, 7)
  assert.equal(config.given.size, 0)
})

test('all problems come in one message: the name, the given value, what is allowed', () => {
  const given = {
    PORT: 'eighty',
    JWT_ALGORITHM: 'RS256',
    SIGNUP: 'closed',
    PUBLIC_URL: 'ftp://example.com',
    DRAIN_SECONDS: '-1',
    TRUSTED_PROXIES: '10.0.0.0/8, everybody',
  }
  assert.throws(
    () => readConfig(given),
    (error: ConfigError) => {
      assert.match(error.message, /^The configuration has 6 problems:\n/)
      assert.match(error.message, /PORT: "eighty" is not allowed; it must be a whole number from 0 to 65535/)
      assert.match(error.message, /JWT_ALGORITHM: "RS256" is not allowed; it must be one of HS256, HS384, HS512/)
      assert.match(error.message, /PUBLIC_URL: "ftp:\/\/example\.com" is not allowed; .* http:\/\/ or https:\/\//)
      return true
    },
  )
  for (const [name, value] of Object.entries(given)) {
    const [problem, ...more] = problemsOf({ [name]: value })
    assert.ok(problem?.startsWith(`${name}: ${JSON.stringify(value)} is not allowed; it must be `), problem)
    assert.deepEqual(more, [])
  }
})

test("a secret's value is never repeated, in a problem or in the list of settings", () => {
  const secret = 'hunter2'
  for (const [name, setting] of Object.entries(settings)) {
    if (!('secret' in setting)) continue
    const said = [...problemsOf({ [name]: secret }), ...problemsOf({ [name]: `${secret},${secret}` })].join()
    assert.ok(!said.includes(secret), said)
  }
  const long = 'x'.repeat(30) + secret
  const config = readConfig({
    DATABASE_URL: `postgres://user:${secret}@db/sluice`,
    JWT_SECRET_KEY: long,
    ENCRYPTION_KEY: long,
    METRICS_TOKEN: long,
    S3_ENDPOINT: `https://user:${secret}@store.example.com`,
  })
  const shown = describeConfig(config)
  assert.ok(!JSON.stringify(shown).includes(secret))
  assert.equal(shown.find(({ name }) => name === 'DATABASE_URL')?.value, '********')
  assert.equal(shown.find(({ name }) => name === 'S3_ENDPOINT')?.value, 'https://user:********@store.example.com')
  assert.deepEqual(
    shown.map(({ name }) => name),
    Object.keys(settings),
  )
})

test('settings that require each other are reported', () => {
  assert.match(problemsOf({ DATABASE_URL: 'postgres://db/sluice' }).join(), /JWT_SECRET_KEY: .*ENCRYPTION_KEY: /)
  assert.match(problemsOf({ IDP_ISSUER: 'https://id.example.com' }).join(), /IDP_CLIENT_ID: is not set/)
  assert.match(
    problemsOf({ IDP_CLIENT_ID: 'us', IDP_TOKEN_URL: 'https://id.example.com/token' }).join(),
    /IDP_ISSUER: /,
  )
  assert.match(problemsOf({ BLOB_URL: 's3://bucket' }).join(), /S3_ACCESS_KEY_ID: .*S3_SECRET_ACCESS_KEY: /)
})

test('modules for custom sources are names, each counted once', () => {
  assert.deepEqual(readConfig({ CELL_MODULES: 'pandas, pandas.io.sql ,pandas' }).CELL_MODULES, [
    'pandas',
    'pandas.io.sql',
  ])
  for (const wrong of ['pan das', '../x', 'a..b', '1a', 'a;b'])
    assert.match(
      problemsOf({ CELL_MODULES: `json,${wrong}` }).join(),
      /CELL_MODULES: .* a comma separated list of Python modules/,
    )
})

test('an empty value counts as not set, and surrounding blanks are ignored', () => {
  const config = readConfig({ PORT: '  ', HOST: ' 0.0.0.0 ', PUBLIC_URL: 'https://sluice.example.com/' })
  assert.equal(config.PORT, 8080)
  assert.equal(config.HOST, '0.0.0.0')
  assert.equal(config.PUBLIC_URL, 'https://sluice.example.com')
  assert.deepEqual([...config.given], ['HOST', 'PUBLIC_URL'])
})

test('addresses follow the actual port, unless they were given', () => {
  assert.equal(completeAddresses(readConfig({ PORT: '0' }), 4711).FRONTEND_URL, 'http://127.0.0.1:4711')
  assert.equal(completeAddresses(readConfig({ HOST: '::1' }), 80).PUBLIC_URL, 'http://[::1]:80')
  const given = readConfig({ PUBLIC_URL: 'https://sluice.example.com' })
  assert.equal(completeAddresses(given, 4711).IDP_REDIRECT_URL, 'https://sluice.example.com/api/auth/idp/callback')
})
