/**
 * The promises of a blob store, for the folder and for S3 alike. The S3 part runs against a small server of our own
 * (test/harness/s3-server.ts) that checks signatures independently of the client. It is not a real S3: what it shows is that
 * the client speaks the protocol as documented, not how a given vendor departs from it.
 */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { InvalidBlobKey } from '../../src/blobs/blob-keys.ts'
import { BlobNotFound, type BlobStore, BlobStoreUnavailable } from '../../src/blobs/blobs.ts'
import { createLocalBlobs } from '../../src/blobs/local.ts'
import { openBlobs } from '../../src/blobs/open.ts'
import { createS3Blobs } from '../../src/blobs/s3.ts'
import { signRequest } from '../../src/s3/signature.ts'
import { type S3Server, startS3Server } from '../harness/s3-server.ts'

async function keysOf(blobs: BlobStore, prefix: string): Promise<string[]> {
  const keys: string[] = []
  for await (const blob of blobs.list(prefix)) keys.push(blob.key)
  return keys.sort()
}

function testStore(open: () => BlobStore): void {
  it('returns what was put, whole or in ranges', async () => {
    const blobs = open()
    await blobs.put('org/a/one.part', Buffer.from('0123456789'))
    assert.equal((await buffer(await blobs.read('org/a/one.part'))).toString(), '0123456789')
    assert.equal((await buffer(await blobs.read('org/a/one.part', { start: 2, end: 4 }))).toString(), '234')
    assert.equal((await buffer(await blobs.read('org/a/one.part', { start: 8, end: 99 }))).toString(), '89')
    assert.equal((await buffer(await blobs.read('org/a/one.part', { start: 5, end: 4 }))).toString(), '')
    assert.equal((await buffer(await blobs.read('org/a/one.part', { start: 50, end: 60 }))).toString(), '')
    const info = await blobs.stat('org/a/one.part')
    assert.equal(info?.size, 10)
    assert.ok(Math.abs(info!.modified.getTime() - Date.now()) < 60_000)
  })

  it('reports that a blob does not exist', async () => {
    const blobs = open()
    await assert.rejects(blobs.read('org/none'), BlobNotFound)
    assert.equal(await blobs.stat('org/none'), null)
    await blobs.delete(['org/none', 'org/neither/here'])
  })

  it('shows nothing of a blob before it is finished, and nothing of an aborted one', async () => {
    const blobs = open()
    const writer = await blobs.writer('org/w/slow')
    await writer.write(Buffer.from('half'))
    assert.equal(await blobs.stat('org/w/slow'), null)
    assert.deepEqual(await keysOf(blobs, 'org/w/'), [])
    await writer.write(Buffer.from(' and half'))
    assert.deepEqual(await writer.finish(), { size: 13 })
    assert.equal((await buffer(await blobs.read('org/w/slow'))).toString(), 'half and half')
    const given = await blobs.writer('org/w/given-up')
    await given.write(Buffer.from('x'))
    await given.abort()
    assert.equal(await blobs.stat('org/w/given-up'), null)
  })

  it('takes large blobs in pieces of any size, and empty ones', async () => {
    const blobs = open()
    const whole = randomBytes(21_000_000)
    const writer = await blobs.writer('org/large')
    for (let at = 0, step = 1; at < whole.length; at += step, step = Math.min(step * 3, 3_000_000)) {
      await writer.write(whole.subarray(at, at + step))
    }
    assert.deepEqual(await writer.finish(), { size: whole.length })
    assert.ok((await buffer(await blobs.read('org/large'))).equals(whole))
    assert.ok(
      (await buffer(await blobs.read('org/large', { start: 9_999_999, end: 10_000_001 }))).equals(
        whole.subarray(9_999_999, 10_000_002),
      ),
    )
    const empty = await blobs.writer('org/empty')
    assert.deepEqual(await empty.finish(), { size: 0 })
    assert.equal((await blobs.stat('org/empty'))?.size, 0)
  })

  it('lists by prefix, also within a name, and deletes many', async () => {
    const blobs = open()
    const keys = ['l/runs/1/1-1.part', 'l/runs/1/1-2.part', 'l/runs/10/1-1.part', 'l/runs/2/a b+c&d<e>.part', 'l/log']
    for (const key of keys) await blobs.put(key, Buffer.from(key))
    assert.deepEqual(await keysOf(blobs, 'l/runs/1/'), keys.slice(0, 2))
    assert.deepEqual(await keysOf(blobs, 'l/runs/1'), keys.slice(0, 3))
    assert.deepEqual(await keysOf(blobs, 'l/'), [...keys].sort())
    assert.deepEqual(await keysOf(blobs, 'nobody/'), [])
    await blobs.delete(keys.slice(0, 4))
    assert.deepEqual(await keysOf(blobs, 'l/'), ['l/log'])
  })

  it('refuses keys that could lead outside the store', async () => {
    const blobs = open()
    const bad = [
      '',
      '/etc/passwd',
      '../x',
      'a/../b',
      'a/..',
      './a',
      'a//b',
      'a/',
      'a\0b',
      'a\\b',
      '.tmp/x',
      'a/\n',
      'x'.repeat(1001),
    ]
    for (const key of bad) {
      await assert.rejects(async () => blobs.put(key, Buffer.from('x')), InvalidBlobKey, JSON.stringify(key))
      await assert.rejects(async () => blobs.read(key), InvalidBlobKey, JSON.stringify(key))
      await assert.rejects(async () => blobs.delete([key]), InvalidBlobKey, JSON.stringify(key))
    }
    assert.throws(() => blobs.list('../'), InvalidBlobKey)
  })
}

describe('blobs in a folder', () => {
  let folder: string
  let blobs: BlobStore
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-blobs-'))
    blobs = createLocalBlobs(join(folder, 'store'))
  })
  after(() => rm(folder, { recursive: true, force: true }))
  testStore(() => blobs)

  it('follows no link out of the store', async () => {
    await mkdir(join(folder, 'outside'))
    await writeFile(join(folder, 'outside', 'secret'), 'secret')
    await blobs.put('org/links/real', Buffer.from('x'))
    await symlink(join(folder, 'outside'), join(folder, 'store', 'org', 'links', 'out'))
    await symlink(join(folder, 'outside', 'secret'), join(folder, 'store', 'org', 'links', 'file'))
    for (const key of ['org/links/out/secret', 'org/links/file']) {
      await assert.rejects(blobs.read(key), InvalidBlobKey)
      await assert.rejects(blobs.stat(key), InvalidBlobKey)
      await assert.rejects(blobs.delete([key]), InvalidBlobKey)
    }
    await assert.rejects(blobs.put('org/links/out/new', Buffer.from('x')), InvalidBlobKey)
    assert.deepEqual(await readdir(join(folder, 'outside')), ['secret'])
    assert.deepEqual(await keysOf(blobs, 'org/links/'), ['org/links/real'])
  })

  it('sweeps leftovers of dead writers, and leaves what is being written', async () => {
    const temporary = join(folder, 'store', '.tmp')
    await writeFile(join(temporary, 'dead'), 'x')
    await utimes(join(temporary, 'dead'), new Date(0), new Date(0))
    const writer = await blobs.writer('org/alive')
    await blobs.sweep(60_000)
    assert.equal((await readdir(temporary)).length, 1)
    await writer.finish()
    assert.deepEqual(await readdir(temporary), [])
  })

  it('leaves no empty folders behind', async () => {
    await blobs.put('gone/runs/1/a', Buffer.from('x'))
    await blobs.delete(['gone/runs/1/a'])
    assert.ok(!(await readdir(join(folder, 'store'))).includes('gone'))
  })
})

describe('blobs on S3', () => {
  let server: S3Server
  let blobs: BlobStore
  before(async () => {
    server = await startS3Server()
    blobs = createS3Blobs({ ...server, prefix: 'some/prefix' })
  })
  after(() => server.close())
  testStore(() => blobs)

  it('copies what is written, into blocks that it uses again', async () => {
    const writer = await blobs.writer('org/copied')
    const chunk = Buffer.alloc(1_500_000)
    const expected = createHash('sha256')
    for (let number = 0; number < 30; number += 1) {
      chunk.fill(number + 1)
      expected.update(chunk)
      await writer.write(chunk)
    }
    chunk.fill(0)
    assert.deepEqual(await writer.finish(), { size: 45_000_000 })
    const stored = createHash('sha256')
    for await (const bytes of await blobs.read('org/copied')) stored.update(bytes)
    assert.equal(stored.digest('hex'), expected.digest('hex'))
  })

  it('keeps everything under its prefix', () => {
    assert.ok(server.objects.size > 0)
    for (const key of server.objects.keys()) assert.ok(key.startsWith('some/prefix/'), key)
  })

  it('lists and deletes beyond one page', async () => {
    server.pageSize = 7
    const keys = Array.from({ length: 30 }, (_, at) => `pages/${String(at).padStart(3, '0')}`)
    for (const key of keys) await blobs.put(key, Buffer.from('x'))
    assert.deepEqual(await keysOf(blobs, 'pages/'), keys)
    await blobs.delete(keys)
    assert.deepEqual(await keysOf(blobs, 'pages/'), [])
    server.pageSize = 1000
  })

  it('leaves no upload behind when a writer aborts, and sweeps those of dead writers', async () => {
    const given = await blobs.writer('uploads/given')
    await given.write(Buffer.alloc(9_000_000))
    assert.equal(server.uploads.size, 1)
    await given.abort()
    assert.equal(server.uploads.size, 0)
    for (const name of ['dead', 'young']) await (await blobs.writer(`uploads/${name}`)).write(Buffer.alloc(9_000_000))
    for (const upload of server.uploads.values()) if (upload.key.endsWith('dead')) upload.begun = new Date(0)
    await blobs.sweep(60_000)
    assert.deepEqual(
      [...server.uploads.values()].map((upload) => upload.key),
      ['some/prefix/uploads/young'],
    )
  })

  it('retries after a server error, and gives up with a clear message', async () => {
    server.failNext(2, 503)
    await blobs.put('again/a', Buffer.from('x'))
    assert.equal((await blobs.stat('again/a'))?.size, 1)
    // More than there are attempts: a request that an earlier test left in flight may use one up.
    server.failNext(20, 503)
    await assert.rejects(
      blobs.put('again/b', Buffer.from('x')),
      /The object store does not answer: .*refused PUT .*SlowDown/,
    )
    server.failNext(0, 503)
  })

  it('waits for an unavailable store, as long as it was told to', async () => {
    const patient = createS3Blobs({ ...server, prefix: 'some/prefix', patienceMs: 20_000 })
    // As many answers as two seconds of retrying produce.
    server.failNext(4, 503)
    const writer = await patient.writer('patient/a')
    await writer.write(Buffer.from('kept'))
    assert.deepEqual(await writer.finish(), { size: 4 })
    server.failNext(20, 503)
    await assert.rejects(blobs.stat('patient/a'), BlobStoreUnavailable)
    server.failNext(0, 503)
  })

  it('reports at start what is wrong with a bucket or a key', async () => {
    await blobs.check()
    await assert.rejects(
      createS3Blobs({ ...server, prefix: '', bucket: 'missing' }).check(),
      /The bucket 'missing' of BLOB_URL does not exist/,
    )
    await assert.rejects(
      createS3Blobs({ ...server, prefix: '', secretAccessKey: 'wrong' }).check(),
      /cannot be used: .*SignatureDoesNotMatch.*Check S3_ACCESS_KEY_ID/,
    )
  })

  it('is refused with a wrong secret', async () => {
    const wrong = createS3Blobs({ ...server, prefix: '', secretAccessKey: 'wrong' })
    await assert.rejects(wrong.put('x', Buffer.from('x')), /SignatureDoesNotMatch/)
  })

  it('reads a blob whole, however slowly, from a store that closes the connection after its answer', async () => {
    const content = randomBytes(100_000)
    const closed = Promise.withResolvers<void>()
    const closing = createServer((socket) => {
      socket.once('data', () => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${content.length}\r\nConnection: close\r\n\r\n`)
        socket.end(content)
      })
      socket.once('close', closed.resolve)
    }).listen(0, '127.0.0.1')
    await once(closing, 'listening')
    try {
      const endpoint = `http://127.0.0.1:${(closing.address() as AddressInfo).port}`
      const body = await createS3Blobs({ ...server, endpoint, prefix: '' }).read('org/slow')
      // More than the reader's buffer holds, so that the end of the connection comes while nobody reads.
      await closed.promise
      assert.deepEqual(await buffer(body), content)
    } finally {
      closing.close()
    }
  })

  it("signs like the example in the protocol's documentation", () => {
    // The example "GET Object" from the description of Signature Version 4 for S3.
    const headers = signRequest(
      {
        method: 'GET',
        host: 'examplebucket.s3.amazonaws.com',
        path: '/test.txt',
        query: {},
        headers: { range: 'bytes=0-9' },
        bodyHash: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
      },
      {
        accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
        secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
        region: 'us-east-1',
      },
      new Date('2013-05-24T00:00:00Z'),
    )
    assert.match(headers.authorization!, /Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41$/)
  })
})

describe('the configuration of the store', () => {
  it('is explained when it is wrong', () => {
    assert.throws(() => openBlobs({ DATA_DIR: tmpdir(), BLOB_URL: 'http://x' }), /file:\/\/\/folder or s3:\/\/bucket/)
    assert.throws(() => openBlobs({ DATA_DIR: tmpdir(), BLOB_URL: 's3://bucket/prefix' }), /S3_ACCESS_KEY_ID/)
  })
})
