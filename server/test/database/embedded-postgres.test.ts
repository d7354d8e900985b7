import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { cp, lstat, mkdir, mkdtemp, readdir, rm, stat, symlink, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import { connectDatabase, type Database, sql } from '../../src/database/database.ts'
import {
  type EmbeddedPostgres,
  embeddedConnection,
  startEmbeddedPostgres,
} from '../../src/database/embedded-postgres.ts'
import { chooseLauncher, findBinaries, type Launcher, linkLibraries } from '../../src/database/postgres-launcher.ts'
import { findProcesses, startProgram, waitUntilGone } from '../harness/processes.ts'

const run = promisify(execFile)
const isRoot = process.getuid!() === 0
const NOBODY = 65_534
/** Containers run as any uid, which has no name. */
const NAMELESS = 12_345

const folders: string[] = []
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))))

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-pg-'))
  folders.push(folder)
  return folder
}

async function withDatabase<T>(server: EmbeddedPostgres, work: (db: Database) => Promise<T>): Promise<T> {
  const db = connectDatabase(server.connection, 1, () => {})
  return work(db).finally(() => db.close())
}

const PASSWORD = 'a password'

test('it keeps its data across a restart, requires the password and only listens on a socket', async () => {
  const folder = await makeFolder()
  assert.equal((await stat(folder)).mode & 0o777, 0o700, 'the folder of this test is closed to other users')
  const first = await startEmbeddedPostgres(folder, PASSWORD)
  await withDatabase(first, async (db) => {
    await db.execute(sql`CREATE TABLE kept (id int)`)
    await db.execute(sql`INSERT INTO kept VALUES (7)`)
    assert.deepEqual(await db.first(sql`SELECT current_setting('listen_addresses') AS tcp`), { tcp: '' })
  })
  const stranger = new pg.Client({ ...first.connection, password: 'another password' })
  await assert.rejects(stranger.connect(), { code: '28P01' })
  assert.equal((await stat(path.join(folder, 'socket'))).mode & 0o777, 0o700)
  await first.stop()
  assert.deepEqual(findProcesses(folder), [])
  const second = await startEmbeddedPostgres(folder, PASSWORD)
  assert.deepEqual(await withDatabase(second, (db) => db.first(sql`SELECT id FROM kept`)), { id: 7 })
  await second.stop()
})

for (const uid of [NOBODY, NAMELESS])
  test(`an ordinary user starts it (${uid})`, {
    skip: !isRoot && 'the whole run is by an ordinary user',
  }, async (context) => {
    const as = ['--reuid', String(uid), '--regid', String(uid), '--clear-groups', '--inh-caps=-all']
    const program = path.join(import.meta.dirname, 'start-postgres.ts')
    const reaches = await run('setpriv', [...as, 'test', '-r', program]).catch(() => null)
    if (reaches === null) return context.skip('this checkout lies in a folder that only root can enter')
    const folder = await makeFolder()
    await run('chown', [String(uid), folder])
    const { code, stdout, stderr } = await startProgram('setpriv', [...as, process.execPath, program, folder]).ended
    assert.equal(code, 0, stderr)
    assert.match(stdout, new RegExp(`uid ${uid} answer 42`))
    assert.equal((await stat(path.join(folder, 'postgres'))).uid, uid)
    assert.deepEqual(await waitUntilGone(() => findProcesses(folder), 2000), [])
  })

test('root starts it as nobody if user namespaces are disabled, and as itself again when they are enabled', {
  skip: !isRoot && 'only root changes the user',
}, async () => {
  const folder = await makeFolder()
  const fakes = await makeFolder()
  await writeFile(path.join(fakes, 'unshare'), '#!/bin/sh\nexit 1\n', { mode: 0o755 })
  const before = process.env.PATH
  process.env.PATH = `${fakes}:${before}`
  try {
    const launcher = await chooseLauncher()
    assert.equal(launcher.owner, NOBODY)
    await initializeFromClosedFolder(launcher)
    const server = await startEmbeddedPostgres(folder, PASSWORD)
    await withDatabase(server, (db) => db.execute(sql`CREATE TABLE kept AS SELECT 7 AS id`))
    assert.equal((await stat(path.join(folder, 'postgres/PG_VERSION'))).uid, NOBODY)
    await server.stop()
  } finally {
    process.env.PATH = before
  }
  if ((await chooseLauncher()).owner !== null) return
  const again = await startEmbeddedPostgres(folder, PASSWORD)
  assert.deepEqual(await withDatabase(again, (db) => db.first(sql`SELECT id FROM kept`)), { id: 7 })
  await again.stop()
})

/** As in a checkout that only root can enter. */
async function initializeFromClosedFolder({ command: [command, ...args] }: Launcher): Promise<void> {
  const closed = await makeFolder()
  assert.equal((await stat(closed)).mode & 0o777, 0o700)
  await cp(await findBinaries(), path.join(closed, 'native'), { recursive: true, verbatimSymlinks: true })
  const cluster = path.join(closed, 'cluster')
  await mkdir(cluster)
  await run('chown', [String(NOBODY), cluster])
  await run(command!, [...args, path.join(closed, 'native/bin/initdb'), '-D', cluster, '--no-sync', '--locale=C'])
}

test('a path too long for a socket works, and no other user can put a link where the socket goes', async () => {
  const folder = path.join(await makeFolder(), 'x'.repeat(60), 'y'.repeat(60))
  await mkdir(folder, { recursive: true })
  const { host } = embeddedConnection(folder, PASSWORD)
  assert.ok(Buffer.byteLength(host!) < 90, host)
  folders.push(host!)
  const elsewhere = await makeFolder()
  await symlink(elsewhere, host!)
  await assert.rejects(startEmbeddedPostgres(folder, PASSWORD), /belongs to another user; remove it, or set DATA_DIR/)
  await unlink(host!)
  const server = await startEmbeddedPostgres(folder, PASSWORD)
  assert.deepEqual(await withDatabase(server, (db) => db.first(sql`SELECT 1 AS one`)), { one: 1 })
  await server.stop()
})

test('data of another major version is left alone, and the error says what to do', async () => {
  const folder = await makeFolder()
  await mkdir(path.join(folder, 'postgres'))
  await writeFile(path.join(folder, 'postgres/PG_VERSION'), '17\n')
  await assert.rejects(
    startEmbeddedPostgres(folder, PASSWORD),
    /was written by PostgreSQL 17, and this Sluice includes PostgreSQL 18\. .*pg_dump.*DATABASE_URL/,
  )
  assert.deepEqual(await readdir(path.join(folder, 'postgres')), ['PG_VERSION'])
})

test('a server left behind by a killed service is stopped, and its data is there', async () => {
  const folder = await makeFolder()
  const first = await startEmbeddedPostgres(folder, PASSWORD)
  await withDatabase(first, (db) => db.execute(sql`CREATE TABLE kept AS SELECT 7 AS id`))
  await first.stop()
  const cluster = path.join(folder, 'postgres')
  // Started without PDEATHSIG and without the lock, so that nothing ends it.
  const launcher = isRoot ? (await chooseLauncher()).command : ['env']
  const bare = launcher.filter((word, index) => !['--pdeathsig', 'QUIT'].includes(word) || index === 0)
  const [command, ...args] = [...bare, path.join(await findBinaries(), 'bin/postgres')]
  const leftover = spawn(command!, [...args, '-D', cluster, '-k', path.join(folder, 'socket'), '-h', ''], {
    stdio: 'ignore',
  })
  const ended = new Promise((resolve) => leftover.once('exit', resolve))
  const probe = { ...first.connection }
  for (;;) {
    const client = new pg.Client(probe)
    const ready = await client.connect().then(
      () => true,
      () => false,
    )
    await client.end().catch(() => {})
    if (ready) break
  }
  const second = await startEmbeddedPostgres(folder, PASSWORD)
  await ended
  assert.deepEqual(await withDatabase(second, (db) => db.first(sql`SELECT id FROM kept`)), { id: 7 })
  await second.stop()
})

test('pid files left by a killed server are stale, even if their pid was reused', async () => {
  const folder = await makeFolder()
  await (await startEmbeddedPostgres(folder, PASSWORD)).stop()
  const stale = `${process.pid}\n${folder}/postgres\n0\n5432\n${folder}/socket\n\n\n`
  await writeFile(path.join(folder, 'postgres/postmaster.pid'), stale)
  await writeFile(path.join(folder, 'socket/.s.PGSQL.5432.lock'), stale)
  const server = await startEmbeddedPostgres(folder, PASSWORD)
  await server.stop()
})

test('a server in another container, which cannot be seen, is not disturbed', async () => {
  const folder = await makeFolder()
  const server = await startEmbeddedPostgres(folder, PASSWORD)
  // That start only sees the lock: it finds no process to stop.
  await writeFile(path.join(folder, 'postgres/postmaster.pid'), '')
  await assert.rejects(startEmbeddedPostgres(folder, PASSWORD), /on another machine or in another container, is using/)
  assert.deepEqual(await withDatabase(server, (db) => db.first(sql`SELECT 1 AS one`)), { one: 1 })
  await server.stop()
})

test('the links between its libraries are created if npm ran no install scripts', async () => {
  const native = await findBinaries()
  const root = await makeFolder()
  await cp(native, path.join(root, 'native'), {
    recursive: true,
    filter: async (file) => !(await lstat(file)).isSymbolicLink(),
  })
  const initdb = path.join(root, 'native/bin/initdb')
  await assert.rejects(run(initdb, ['--version']), /error while loading shared libraries/)
  await linkLibraries(path.join(root, 'native'))
  assert.match((await run(initdb, ['--version'])).stdout, /PostgreSQL\) 18/)
  await linkLibraries(path.join(root, 'native'))
})
