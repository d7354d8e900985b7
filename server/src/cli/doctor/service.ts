/** What needs the database: its state, the queue, the blob store, the sandbox, egress, keys and the clock. */
import { randomUUID } from 'node:crypto'
import { openBlobs } from '../../blobs/open.ts'
import { type Database, raw, sql } from '../../database/database.ts'
import { SEALED_COLUMNS } from '../../database/key-rotation.ts'
import { listApplied, readMigrations } from '../../database/migrate.ts'
import { listRunningRoles } from '../../database/running-roles.ts'
import { createSecretBox } from '../../database/secret-box.ts'
import { createGuard } from '../../egress/guard.ts'
import { addressesOf, composeServices } from '../../services.ts'
import type { OpenDatabase } from '../open-database.ts'
import { type Finding, lookAt, ok, problem, warning } from './finding.ts'

export async function lookAtService(open: OpenDatabase): Promise<Finding[]> {
  const database = await lookAt('database', 'Check DATABASE_URL and the log of the server.', () =>
    lookAtDatabase(open.db),
  )
  const migrated = (await listApplied(open.db)) !== null
  const after = migrated
    ? [
        ...(await lookAt('queue', 'Check the log of the workers.', () => lookAtQueue(open.db))),
        ...(await lookAt('keys', 'Check ENCRYPTION_KEY.', () => lookAtKeys(open))),
      ]
    : []
  return [
    ...database,
    ...after,
    ...(await lookAt('blobs', 'Check BLOB_URL and the S3_ settings.', () => lookAtBlobs(open))),
    ...(await lookAt('sandbox', 'See docs/custom-sources.md.', () => lookAtSandbox(open))),
    ...(await lookAt('egress', 'Check EGRESS_ALLOW.', async () => lookAtEgress(open))),
    ...(await lookAt('clock', 'Let both machines synchronise their clocks.', () => lookAtClock(open.db))),
  ]
}

async function lookAtDatabase(db: Database): Promise<Finding[]> {
  const began = performance.now()
  const server = (await db.first<{ version: string; used: number; most: number }>(sql`
    SELECT current_setting('server_version') AS version, (SELECT count(*) FROM pg_stat_activity) AS used,
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS most`))!
  const ms = Math.round(performance.now() - began)
  const findings = [
    ok(
      'database',
      `PostgreSQL ${server.version} answers in ${ms} ms; ${server.used} of ${server.most} connections are used`,
    ),
  ]
  if (server.used > server.most * 0.8)
    findings.push(
      warning(
        'database',
        `${server.used} of ${server.most} connections are used`,
        'Raise max_connections, lower DATABASE_POOL, or put pgbouncer in session mode in between.',
      ),
    )
  const known = await readMigrations()
  const applied = await listApplied(db)
  const missing = known.filter(({ number }) => !applied?.some((one) => one.number === number))
  const newer = applied?.filter(({ number }) => number > (known.at(-1)?.number ?? 0)) ?? []
  if (applied === null)
    findings.push(warning('database', 'it has no tables yet', 'Start the service, or run sluice migrate.'))
  else if (missing.length > 0)
    findings.push(
      warning(
        'database',
        `${missing.length} migrations are not applied yet (${missing[0]!.name}, …)`,
        'Run sluice migrate, or start the new version.',
      ),
    )
  if (newer.length > 0)
    findings.push(
      warning('database', `it was migrated by a newer version (${newer.at(-1)!.name})`, 'Upgrade this machine too.'),
    )
  return findings
}

const OLD_SECONDS = 300
const countWaiting = (runs: number): string => (runs === 1 ? '1 run waits' : `${runs} runs wait`)

async function lookAtQueue(db: Database): Promise<Finding[]> {
  const roles = await listRunningRoles(db)
  const queue = (await db.first<{
    waiting: number
    oldest: number | null
    running: number
    lost: number
    late: number
  }>(sql`
    SELECT count(*) FILTER (WHERE pod_class = '' AND status = 'pending' AND ready AND available_at <= now()) AS waiting,
           extract(epoch FROM now() - min(available_at) FILTER (WHERE pod_class = '' AND status = 'pending' AND ready AND available_at <= now()))::float8 AS oldest,
           count(*) FILTER (WHERE status = 'running') AS running,
           count(*) FILTER (WHERE status = 'running' AND lease_until < now() - interval '1 minute') AS lost,
           (SELECT count(*) FROM pipelines WHERE enabled AND next_run_at < now() - interval '1 minute') AS late
      FROM runs WHERE status IN ('pending', 'running')`))!
  const classes = await db.query<{ name: string; waiting: number; oldest: number }>(sql`
    SELECT pod_class AS name, count(*) AS waiting, extract(epoch FROM now() - min(available_at))::float8 AS oldest
      FROM runs WHERE pod_class > '' AND status = 'pending' AND ready AND available_at <= now() GROUP BY 1 ORDER BY 1`)
  const has = (role: string) => roles.some((name) => name.split(' ')[0]!.split('+').includes(role))
  const findings = [
    ok(
      'queue',
      `${countWaiting(queue.waiting)}, ${queue.running} ${queue.running === 1 ? 'is' : 'are'} running; processes: ${roles.join(', ') || 'none'}`,
    ),
  ]
  if (queue.waiting > 0 && !has('worker'))
    findings.push(problem('queue', 'runs wait, and no worker is running', 'Start sluice worker.'))
  else if ((queue.oldest ?? 0) > OLD_SECONDS)
    findings.push(
      warning(
        'queue',
        `a run has been waiting for ${Math.round(queue.oldest!)} s`,
        'Start more workers, or raise WORKER_CONCURRENCY or ORG_CONCURRENCY.',
      ),
    )
  for (const { name, waiting, oldest } of classes) {
    const found = `${countWaiting(waiting)} for a worker of the class ${name}, the oldest for ${Math.round(oldest)} s`
    findings.push(
      oldest > OLD_SECONDS
        ? warning(
            'queue',
            found,
            `See whether something starts sluice worker --once --class ${name}, and why it does not (docs/operations.md).`,
          )
        : ok('queue', found),
    )
  }
  if (queue.late > 0 && !has('scheduler'))
    findings.push(
      problem('queue', `${queue.late} pipelines are due, and no scheduler is running`, 'Start sluice scheduler.'),
    )
  if (queue.lost > 0)
    findings.push(
      warning(
        'queue',
        `${queue.lost} running runs have lost their worker`,
        'Start a worker or a scheduler; either takes them over.',
      ),
    )
  return findings
}

async function lookAtKeys({ config, db, keys }: OpenDatabase): Promise<Finding[]> {
  const own = keys.encryption_keys.map((key) => createSecretBox([key]).currentKeyId.toString('hex'))
  const used = new Map<string, number>()
  for (const { table, column } of SEALED_COLUMNS) {
    const rows = await db.query<{ id: string; count: number }>(
      sql`SELECT encode(substr(${raw(column)}, 2, 4), 'hex') AS id, count(*) AS count FROM ${raw(table)} WHERE ${raw(column)} IS NOT NULL GROUP BY 1`,
    )
    for (const { id, count } of rows) used.set(id, (used.get(id) ?? 0) + count)
  }
  const findings = [ok('keys', `${used.get(own[0]!) ?? 0} values are encrypted with the first key (${own[0]})`)]
  for (const [id, count] of used) {
    if (!own.includes(id))
      findings.push(
        problem(
          'keys',
          `${count} values are encrypted with the key ${id}, which ENCRYPTION_KEY does not have`,
          'Add that key to the list, or enter these credentials again.',
        ),
      )
    else if (id !== own[0])
      findings.push(
        warning(
          'keys',
          `${count} values are still encrypted with the older key ${id}`,
          'Run sluice keys rotate before you remove it.',
        ),
      )
  }
  if (keys.jwt_secret.length < 32)
    findings.push(
      warning(
        'keys',
        `JWT_SECRET_KEY has only ${keys.jwt_secret.length} characters`,
        'Use 32 or more; everybody has to sign in again after the change.',
      ),
    )
  if (config.PUBLIC_URL.startsWith('http://') && !/^http:\/\/(localhost|127\.|\[::1\])/.test(config.PUBLIC_URL))
    findings.push(
      warning(
        'keys',
        'PUBLIC_URL is not encrypted: tokens and passwords cross the network in the clear',
        'Put a proxy with TLS in front and set PUBLIC_URL to https://…',
      ),
    )
  return findings
}

async function lookAtBlobs({ config }: OpenDatabase): Promise<Finding[]> {
  const blobs = openBlobs(config)
  await blobs.check()
  const began = performance.now()
  const key = `doctor/${randomUUID()}`
  const content = randomUUID()
  await blobs.put(key, Buffer.from(content))
  let read = ''
  for await (const chunk of await blobs.read(key)) read += String(chunk)
  await blobs.delete([key])
  if (read !== content) return [problem('blobs', 'what was written is not what is read', 'Check the store.')]
  const where = config.BLOB_URL ?? `${config.DATA_DIR}/blobs`
  return [ok('blobs', `${where}: written, read and deleted in ${Math.round(performance.now() - began)} ms`)]
}

async function lookAtSandbox({ config, log, db, keys }: OpenDatabase): Promise<Finding[]> {
  const closers: (() => Promise<unknown>)[] = []
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer()
  }
  const services = composeServices({ config, log, db, keys, closers, close })
  try {
    const { ok: works, reason } = await services.calls.selfTest()
    if (!works)
      return [
        problem(
          'sandbox',
          `custom sources cannot run: ${reason}`,
          'See docs/custom-sources.md for what the kernel must allow.',
        ),
      ]
    return config.SANDBOX === 'none'
      ? [
          warning(
            'sandbox',
            'SANDBOX=none: code of tenants runs without a sandbox',
            'Unset SANDBOX unless all tenants are trusted.',
          ),
        ]
      : [ok('sandbox', 'a custom source ran, sealed off from files and network')]
  } finally {
    await services.close()
  }
}

/** Addresses that give away a machine's role, or reach what nobody meant to open. */
const DELICATE = { '169.254.169.254': 'the metadata service', '127.0.0.1': 'this machine itself' }

/** One on which Sluice itself does not listen: its own listeners stay closed anyway. */
const ANY_PORT = 9

function lookAtEgress({ config }: OpenDatabase): Finding[] {
  const guard = createGuard(config.EGRESS_ALLOW, addressesOf(config))
  const isOpen = (address: string) => {
    try {
      guard.checkTarget(address, ANY_PORT)
      return true
    } catch {
      return false
    }
  }
  const open = Object.entries(DELICATE).filter(([address]) => isOpen(address))
  const findings = [
    ok(
      'egress',
      config.EGRESS_ALLOW.length === 0
        ? 'only public addresses can be reached'
        : `besides public addresses: ${config.EGRESS_ALLOW.join(', ')}`,
    ),
  ]
  for (const [address, what] of open)
    findings.push(
      warning(
        'egress',
        `EGRESS_ALLOW opens ${address}, ${what}, to all tenants`,
        'Name single addresses and ports instead.',
      ),
    )
  return findings
}

const CLOCK_MS = 2000

/** Leases and schedules use the database's clock, logs and tokens that of the machine. */
async function lookAtClock(db: Database): Promise<Finding[]> {
  const before = Date.now()
  const { now } = (await db.first<{ now: number }>(
    sql`SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now`,
  ))!
  const after = Date.now()
  const difference = Math.round(now - (before + after) / 2)
  // Half of the time that the question took is not known.
  if (Math.abs(difference) - (after - before) / 2 > CLOCK_MS)
    return [
      warning(
        'clock',
        `the clock of the database is ${Math.abs(difference)} ms ${difference > 0 ? 'ahead of' : 'behind'} this machine's`,
        'Let both machines synchronise their clocks (chrony, systemd-timesyncd).',
      ),
    ]
  return [ok('clock', `${Math.abs(difference)} ms between this machine and the database`)]
}
