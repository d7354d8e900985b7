import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { DataFolderInUse, lockDataFolder, makeDataFolder, readOrMakeSecrets } from '../../src/database/data-folder.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-folder-'))
after(() => rmSync(folder, { recursive: true, force: true }))

test('only one service uses a data folder at a time, whatever path it uses', async () => {
  const data = makeDataFolder(path.join(folder, 'data'))
  assert.equal(statSync(data).mode & 0o777, 0o700)
  const link = path.join(folder, 'link')
  symlinkSync(data, link)
  const unlock = await lockDataFolder(data)
  await assert.rejects(lockDataFolder(makeDataFolder(link)), (error: Error) => {
    assert.ok(error instanceof DataFolderInUse)
    assert.match(
      error.message,
      /^Another Sluice is already running on the data folder .*; stop it first, or set DATA_DIR/,
    )
    return true
  })
  await unlock()
  await (await lockDataFolder(data))()
})

test('secrets are generated once, readable only by their owner', () => {
  const first = readOrMakeSecrets(folder)
  assert.equal(statSync(path.join(folder, 'secrets.json')).mode & 0o777, 0o600)
  assert.deepEqual(readOrMakeSecrets(folder), first)
  assert.ok(Object.values(first).every((secret) => secret.length >= 32))
})

test('broken secrets are not replaced by new ones that decrypt nothing', () => {
  writeFileSync(path.join(folder, 'secrets.json'), '{ "jwt_secret"')
  assert.throws(() => readOrMakeSecrets(folder), /cannot be read .*restore the file from a backup/)
})

test('a folder that cannot be created or written to names the setting to change, and is not retried forever', () => {
  const file = path.join(folder, 'file')
  writeFileSync(file, '')
  symlinkSync(path.join(folder, 'nowhere/at/all'), path.join(folder, 'dangling'))
  // Below /proc the kernel reports that the parent folder is missing, although it exists.
  for (const hopeless of [file, path.join(file, 'data'), path.join(folder, 'dangling/data'), '/proc/nowhere/data'])
    assert.throws(
      () => makeDataFolder(hopeless),
      /^\w+: The data folder \S+ cannot be created or written to \(E\w+\); set DATA_DIR/,
    )
  const closed = path.join(folder, 'closed')
  mkdirSync(closed, { mode: 0o500 })
  // Root may write to any folder, except where writing is impossible.
  const readOnly = process.getuid?.() === 0 ? '/proc' : closed
  assert.throws(() => {
    readOrMakeSecrets(makeDataFolder(readOnly))
  }, /cannot be (created or )?written to .*DATA_DIR/)
})
