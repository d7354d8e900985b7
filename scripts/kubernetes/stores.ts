/**
 * The PostgreSQL of the platform, another one that pipelines load into (a pipeline cannot reach that of the platform), and an
 * S3 server: on this machine, under an address that pods reach, or given by the environment.
 */
import pg from 'pg'
import { startServer } from '../../server/test/harness/postgres-server.ts'
import { startS3Server } from '../../server/test/harness/s3-server.ts'

export interface Stores {
  /** For pods. */
  databaseUrl: string
  scalerUrl: string
  ledgerUrl: string
  /** What EGRESS_ALLOW has to name. */
  ledgerHost: string
  settings: Record<string, string>
  s3Keys: { s3AccessKeyId: string; s3SecretAccessKey: string }
  /** For this test. */
  database: pg.Client
  ledger: pg.Client
  /** After the migrations: the role that KEDA asks with. */
  makeScaler(): Promise<void>
  close(): Promise<void>
}

const ENVIRONMENT = [
  'TEST_DATABASE_URL',
  'TEST_LEDGER_URL',
  'TEST_S3_ENDPOINT',
  'TEST_S3_BUCKET',
  'TEST_S3_ACCESS_KEY_ID',
  'TEST_S3_SECRET_ACCESS_KEY',
]

export async function openStores(address: string | undefined): Promise<Stores> {
  return address === undefined ? useGiven() : serveHere(address)
}

async function useGiven(): Promise<Stores> {
  const missing = ENVIRONMENT.filter((name) => !process.env[name])
  if (missing.length > 0)
    throw new Error(
      `Give --address (an address of this machine that pods reach), or set ${missing.join(', ')} in the environment.`,
    )
  const [databaseUrl, ledgerUrl, endpoint, bucket, id, secret] = ENVIRONMENT.map((name) => process.env[name]!) as [
    string,
    string,
    string,
    string,
    string,
    string,
  ]
  const settings = {
    BLOB_URL: `s3://${bucket}`,
    S3_ENDPOINT: endpoint,
    S3_REGION: process.env.TEST_S3_REGION ?? 'us-east-1',
  }
  return connect(
    { databaseUrl, ledgerUrl, settings, keys: { id, secret } },
    (url) => url,
    async () => {},
  )
}

async function serveHere(address: string): Promise<Stores> {
  const open = { 'pg_hba.conf': 'host all all all scram-sha-256\n' }
  const settings = { listen_addresses: '0.0.0.0', max_connections: '200' }
  const [database, ledger] = [await startServer(settings, open), await startServer(settings, open)]
  const s3 = await startS3Server('0.0.0.0')
  const forPods = (url: string) => url.replace('127.0.0.1', address)
  return connect(
    {
      databaseUrl: forPods(database.url()),
      ledgerUrl: forPods(ledger.url()),
      settings: {
        BLOB_URL: `s3://${s3.bucket}`,
        S3_ENDPOINT: s3.endpoint.replace('0.0.0.0', address),
        S3_REGION: s3.region,
      },
      keys: { id: s3.accessKeyId, secret: s3.secretAccessKey },
    },
    (url) => url.replace(address, '127.0.0.1'),
    async () => {
      await database.stop()
      await ledger.stop()
      await s3.close()
    },
  )
}

interface Given {
  databaseUrl: string
  ledgerUrl: string
  settings: Record<string, string>
  keys: { id: string; secret: string }
}

async function connect(given: Given, forUs: (url: string) => string, stop: () => Promise<void>): Promise<Stores> {
  const [database, ledger] = await Promise.all(
    [given.databaseUrl, given.ledgerUrl].map(async (url) => {
      const client = new pg.Client(forUs(url))
      client.on('error', () => {})
      await client.connect()
      return client
    }),
  )
  const scaler = new URL(given.databaseUrl)
  scaler.username = 'sluice_test_scaler'
  scaler.password = 'only-for-this-test'
  return {
    databaseUrl: given.databaseUrl,
    ledgerUrl: given.ledgerUrl,
    ledgerHost: `${new URL(given.ledgerUrl).hostname}:${new URL(given.ledgerUrl).port || 5432}`,
    scalerUrl: scaler.href,
    settings: given.settings,
    s3Keys: { s3AccessKeyId: given.keys.id, s3SecretAccessKey: given.keys.secret },
    database: database!,
    ledger: ledger!,
    async makeScaler() {
      const { username, password } = scaler
      await database!.query(
        `DO $$ BEGIN CREATE ROLE ${username} LOGIN PASSWORD '${password}'; EXCEPTION WHEN duplicate_object THEN NULL; END $$`,
      )
      await database!.query(`GRANT EXECUTE ON FUNCTION queue_depth(text, integer) TO ${username}`)
    },
    async close() {
      await Promise.all([database!.end(), ledger!.end()])
      await stop()
    },
  }
}
