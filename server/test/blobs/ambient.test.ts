/** Credentials from the machine, for the bucket of BLOB_URL alone, against local servers of the services that give them. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { ambientCredentials } from '../../src/blobs/ambient/credentials.ts'
import { type BlobSettings, openBlobs, pickBlobSettings } from '../../src/blobs/open.ts'
import { readConfig } from '../../src/config/config.ts'
import { s3Source } from '../../src/connectors/s3/source/source.ts'
import { findSettingsFaults } from '../../src/connectors/settings/settings.ts'
import { openRunBench } from '../harness/run-bench.ts'
import { type S3Server, startS3Server } from '../harness/s3-server.ts'

const HOUR_MS = 3_600_000
let bucket: S3Server
let folder: string
let address: string
/** How the service answers, and what it was asked. */
let answer: (request: IncomingMessage, body: string) => { status?: number; body: string }
let asked: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[] = []

const service = createServer(async (request, response) => {
  const body = await text(request)
  asked.push({ method: request.method!, url: request.url!, headers: request.headers, body })
  const given = answer(request, body)
  response.writeHead(given.status ?? 200).end(given.body)
})

before(async () => {
  bucket = await startS3Server()
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-ambient-'))
  service.listen(0, '127.0.0.1')
  await once(service, 'listening')
  address = `http://127.0.0.1:${(service.address() as AddressInfo).port}`
})
after(async () => {
  service.closeAllConnections()
  service.close()
  await bucket.close()
  await rm(folder, { recursive: true })
})
beforeEach(() => {
  asked = []
  bucket.users.clear()
})

/** A temporary user of the bucket. */
function newUser(name: string): { AccessKeyId: string; SecretAccessKey: string; Token: string; Expiration: string } {
  const user = { secret: `secret-${name}`, token: `token-${name}`, may: () => true }
  bucket.users.set(name, user)
  const Expiration = new Date(Date.now() + HOUR_MS).toISOString()
  return { AccessKeyId: name, SecretAccessKey: user.secret, Token: user.token, Expiration }
}

function settingsWith(ambient: Partial<BlobSettings>): BlobSettings {
  return {
    DATA_DIR: folder,
    BLOB_URL: `s3://${bucket.bucket}/blobs`,
    S3_ENDPOINT: bucket.endpoint,
    S3_REGION: bucket.region,
    S3_CREDENTIALS: 'ambient',
    ...ambient,
  }
}

async function writeAndRead(ambient: Partial<BlobSettings>): Promise<void> {
  const blobs = openBlobs(settingsWith(ambient), 0)
  await blobs.put('org/key', Buffer.from('hello'))
  assert.equal(await text(await blobs.read('org/key')), 'hello')
}

const stsAnswer = ({ AccessKeyId, SecretAccessKey, Token, Expiration }: ReturnType<typeof newUser>): string =>
  `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>${AccessKeyId}</AccessKeyId>
  <SecretAccessKey>${SecretAccessKey}</SecretAccessKey><SessionToken>${Token}</SessionToken><Expiration>${Expiration}</Expiration>
  </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`

describe('ambient credentials', () => {
  it('are keys of the environment', async () => {
    newUser('ENVIRONMENT')
    await writeAndRead({
      AWS_ACCESS_KEY_ID: 'ENVIRONMENT',
      AWS_SECRET_ACCESS_KEY: 'secret-ENVIRONMENT',
      AWS_SESSION_TOKEN: 'token-ENVIRONMENT',
    })
    assert.deepEqual(asked, [])
  })

  it('are those of a role, for the token in a file', async () => {
    const file = path.join(folder, 'web-identity')
    await writeFile(file, 'a.web.token\n')
    const user = newUser('ROLE')
    answer = () => ({ body: stsAnswer(user) })
    await writeAndRead({
      AWS_WEB_IDENTITY_TOKEN_FILE: file,
      AWS_ROLE_ARN: 'arn:aws:iam::1:role/sluice',
      AWS_ENDPOINT_URL_STS: address,
    })
    assert.equal(asked.length, 1, 'asked once for both requests')
    const form = new URLSearchParams(asked[0]!.body)
    assert.deepEqual(Object.fromEntries(form), {
      Action: 'AssumeRoleWithWebIdentity',
      Version: '2011-06-15',
      RoleArn: 'arn:aws:iam::1:role/sluice',
      RoleSessionName: 'sluice',
      WebIdentityToken: 'a.web.token',
    })
  })

  it('are those of a container, with the authorization that it is given', async () => {
    const file = path.join(folder, 'container-token')
    await writeFile(file, 'container-secret\n')
    const user = newUser('CONTAINER')
    answer = (request) =>
      request.headers.authorization === 'container-secret'
        ? { body: JSON.stringify(user) }
        : { status: 401, body: '{}' }
    const uri = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${address}/v1/credentials` }
    await writeAndRead({ ...uri, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file })
    await writeAndRead({ ...uri, AWS_CONTAINER_AUTHORIZATION_TOKEN: 'container-secret' })
    await assert.rejects(
      writeAndRead({ ...uri, AWS_CONTAINER_AUTHORIZATION_TOKEN: 'wrong' }),
      /container credentials endpoint gives no credentials for BLOB_URL: it answered with status 401/,
    )
  })

  it('are those of the instance, by version 2 of its metadata', async () => {
    const user = newUser('INSTANCE')
    answer = (request) => {
      if (request.method === 'PUT' && request.url === '/latest/api/token') return { body: 'metadata-token' }
      if (request.headers['x-aws-ec2-metadata-token'] !== 'metadata-token') return { status: 401, body: '' }
      return { body: request.url!.endsWith('/') ? 'my-role\n' : JSON.stringify({ Code: 'Success', ...user }) }
    }
    await writeAndRead({ AWS_EC2_METADATA_SERVICE_ENDPOINT: address })
    assert.deepEqual(
      asked.map(({ method, url }) => `${method} ${url}`),
      [
        'PUT /latest/api/token',
        'GET /latest/meta-data/iam/security-credentials/',
        'GET /latest/meta-data/iam/security-credentials/my-role',
      ],
    )
  })

  it('are fetched again before they expire, and the old ones serve as long as that fails', async () => {
    let now = Date.now()
    let user = newUser('FIRST')
    let down = false
    answer = () => (down ? { status: 500, body: '' } : { body: JSON.stringify(user) })
    const source = ambientCredentials({ AWS_CONTAINER_CREDENTIALS_FULL_URI: address }, 'us-east-1', () => now)
    const key = async (): Promise<string> => (await source.get()).accessKeyId
    assert.deepEqual(await Promise.all([key(), key(), key()]), ['FIRST', 'FIRST', 'FIRST'])
    assert.equal(asked.length, 1, 'one question for all that wait')
    now += HOUR_MS - 6 * 60_000
    assert.equal(await key(), 'FIRST')
    assert.equal(asked.length, 1)
    now += 2 * 60_000
    down = true
    assert.equal(await key(), 'FIRST')
    const tries = asked.length
    assert.equal(await key(), 'FIRST')
    assert.equal(asked.length, tries, 'not asked again at once')
    now += 60_000
    down = false
    user = newUser('SECOND')
    assert.equal(await key(), 'SECOND')
    now += 2 * HOUR_MS
    down = true
    await assert.rejects(key(), /status 500/)
  })

  it('that the store says have expired are fetched again, and the request is repeated', async () => {
    let user = newUser('EARLY')
    answer = () => ({ body: JSON.stringify(user) })
    const blobs = openBlobs(settingsWith({ AWS_CONTAINER_CREDENTIALS_FULL_URI: address }), 0)
    await blobs.put('org/one', Buffer.from('1'))
    user = newUser('LATER')
    bucket.intercept = (request, response) => {
      if (!String(request.headers.authorization).includes('EARLY')) return false
      response.writeHead(400).end('<Error><Code>ExpiredToken</Code></Error>')
      return true
    }
    await blobs.put('org/two', Buffer.from('2'))
    assert.equal(asked.length, 2)
    bucket.intercept = null
  })

  it('are explained where there are none, without repeating a secret', async () => {
    const file = path.join(folder, 'secret-token')
    await writeFile(file, 'very-secret-token')
    const role = { AWS_WEB_IDENTITY_TOKEN_FILE: file, AWS_ROLE_ARN: 'role', AWS_ENDPOINT_URL_STS: address }
    const cases: [Partial<BlobSettings>, () => { status?: number; body: string }, RegExp][] = [
      [role, () => ({ status: 403, body: '<Error><Code>AccessDenied</Code><Message>very-secret-token</Message></Error>' }), /security token service .*status 403, AccessDenied/],
      [role, () => ({ body: 'hello' }), /no AccessKeyId/],
      [{ ...role, AWS_WEB_IDENTITY_TOKEN_FILE: `${file}-none` }, () => ({ body: '' }), /AWS_WEB_IDENTITY_TOKEN_FILE cannot be read \(ENOENT\)/],
      [{ AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://192.0.2.1/' }, () => ({ body: '' }), /must be https, or an address of this machine/],
      [{ AWS_CONTAINER_CREDENTIALS_FULL_URI: address }, () => ({ body: 'x'.repeat(100_000) }), /cannot be reached|not JSON/],
      [{ AWS_EC2_METADATA_SERVICE_ENDPOINT: address }, () => ({ status: 404, body: '' }), /instance metadata service .*status 404/],
      [{ AWS_EC2_METADATA_SERVICE_ENDPOINT: address }, () => ({ body: '<html> </html>' }), /instance metadata service .*no token/],
      [{ AWS_EC2_METADATA_DISABLED: 'true' }, () => ({ body: '' }), /there are none: set AWS_ACCESS_KEY_ID/],
    ] // biome-ignore format: a table
    for (const [ambient, given, message] of cases) {
      answer = given
      await assert.rejects(writeAndRead(ambient), (error: Error) => {
        assert.match(error.message, message)
        assert.doesNotMatch(`${error.stack}`, /very-secret-token/)
        return true
      })
    }
  })

  it('are only used if they are asked for, and go to no other process otherwise', () => {
    const env = { AWS_ACCESS_KEY_ID: 'DEVELOPER', AWS_SECRET_ACCESS_KEY: 'private', AWS_ENDPOINT_URL_STS: 'nonsense' }
    const local = readConfig(env)
    assert.doesNotMatch(JSON.stringify(pickBlobSettings(local)), /DEVELOPER|private/)
    assert.throws(() => readConfig({ ...env, BLOB_URL: 's3://bucket' }), /S3_ACCESS_KEY_ID: is not set/)
    const both = { ...env, BLOB_URL: 's3://bucket', S3_CREDENTIALS: 'ambient', S3_ACCESS_KEY_ID: 'key' }
    assert.throws(() => readConfig(both), /S3_ACCESS_KEY_ID: is set, but S3_CREDENTIALS is ambient/)
    const ambient = readConfig({ ...env, BLOB_URL: 's3://bucket', S3_CREDENTIALS: 'ambient' })
    assert.equal(pickBlobSettings(ambient).AWS_SECRET_ACCESS_KEY, 'private')
  })
})

describe('the s3 connector', () => {
  const kept = { ...process.env }
  afterEach(() => {
    for (const name of Object.keys(process.env)) if (!(name in kept)) delete process.env[name]
    Object.assign(process.env, kept)
  })

  it('never uses ambient credentials', async () => {
    answer = () => ({ body: JSON.stringify(newUser('AMBIENT')) })
    Object.assign(process.env, {
      S3_CREDENTIALS: 'ambient',
      AWS_ACCESS_KEY_ID: 'AMBIENT',
      AWS_SECRET_ACCESS_KEY: 'secret-AMBIENT',
      AWS_SESSION_TOKEN: 'token-AMBIENT',
      AWS_CONTAINER_CREDENTIALS_FULL_URI: address,
      AWS_EC2_METADATA_SERVICE_ENDPOINT: address,
    })
    const place = { bucket: bucket.bucket, endpoint: bucket.endpoint, region: bucket.region }
    assert.match(findSettingsFaults(s3Source.settings, place, 'config').join(), /access_key_id/)
    const keys: string[] = []
    bucket.intercept = (request) => {
      keys.push(`${request.headers.authorization} ${request.headers['x-amz-security-token']}`)
      return false
    }
    const bench = await openRunBench()
    try {
      const config = { ...place, access_key_id: bucket.accessKeyId, secret_access_key: bucket.secretAccessKey }
      const source = { name: 's3', stream: '*', config }
      await bench.run(bench.job({ source, destination: { name: 's3', config: { ...config, folder: 'out' } } }))
    } finally {
      bucket.intercept = null
      await bench.close()
    }
    assert.ok(keys.length > 0)
    assert.doesNotMatch(keys.join('\n'), /AMBIENT/)
    assert.deepEqual(asked, [])
  })
})
