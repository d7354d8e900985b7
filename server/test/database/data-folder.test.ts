import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { DataFolderInUse, lockDataFolder, makeDataFolder, readOrMakeSecrets } from '../../src/database/data-folder.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-folder-'))
after(() => rmSync(folder, { recursive: true, force: true }))

test('one service uses a data folder at a time, by whichever path it came', async () => {
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

test('secrets are made once, for their owner alone', () => {
  const first = readOrMakeSecrets(folder)
  assert.equal(statSync(path.join(folder, 'secrets.json')).mode & 0o777, 0o600)
  assert.deepEqual(readOrMakeSecrets(folder), first)
  assert.ok(Object.values(first).every((secret) => secret.length >= 32))
})

test('broken secrets are not replaced by new ones that open nothing', () => {
  writeFileSync(path.join(folder, 'secrets.json'), '{ "jwt_secret"')
  assert.throws(() => readOrMakeSecrets(folder), /can not be read .*restore the file from a backup/)
})

test('a folder that can not be made says which setting to change', () => {
  writeFileSync(path.join(folder, 'file'), '')
  assert.throws(() => makeDataFolder(path.join(folder, 'file/data')), /can not be made \(ENOTDIR\); set DATA_DIR to/)
})
