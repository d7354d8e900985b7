import assert from 'node:assert/strict'
import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { DiskFull, watchSpace } from '../../src/blobs/disk-space.ts'

test('data that would fill the disk is refused before it is written', async () => {
  const { bavail, bsize } = statfsSync(tmpdir())
  await assert.rejects(async () => watchSpace(tmpdir(), bavail * bsize * 2)(1), DiskFull)
  const makeRoom = watchSpace(tmpdir(), 1)
  for (let written = 0; written < 100; written++) makeRoom(1024 * 1024)
  watchSpace('/no/such/folder', 1)(1)
})
