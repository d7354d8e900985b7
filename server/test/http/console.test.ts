import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import { startApp } from '../harness/app.ts'

const dist = path.resolve(import.meta.dirname, '../../../web/dist')
const skip = existsSync(dist) ? false : 'the console is not built: npm run build -w web'
const HTML = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

describe('the console is served by the API process', { skip }, async () => {
  const { app } = await startApp()
  const get = (url: string, headers: Record<string, string> = HTML) => app.inject({ method: 'GET', url, headers })

  it('a browser gets the page at every address that is not taken', async () => {
    for (const url of [
      '/',
      '/pipelines',
      '/runs/some-id?tab=log',
      '/accept-invitation?token=x',
      '/apis',
      '/documents',
    ]) {
      const answer = await get(url)
      assert.equal(answer.statusCode, 200, url)
      assert.match(answer.headers['content-type'] as string, /^text\/html/)
      assert.match(answer.body, /<div id="root">/)
    }
  })

  it('what belongs to the API stays JSON, whatever is accepted', async () => {
    for (const url of [
      '/api/nothing',
      '/api',
      '/docs/nothing',
      '/healthz/x',
      '/readyz/x',
      '/metrics',
      '/assets/none.js',
    ]) {
      const answer = await get(url)
      assert.equal(answer.statusCode, 404, url)
      assert.match(answer.headers['content-type'] as string, /^application\/json/, url)
    }
  })

  it('who does not ask for HTML, or does not GET, gets JSON', async () => {
    for (const headers of [{ accept: '*/*' }, { accept: 'application/json' }, {}] as Record<string, string>[])
      assert.equal((await get('/pipelines', headers)).statusCode, 404)
    const posted = await app.inject({ method: 'POST', url: '/pipelines', headers: HTML })
    assert.equal(posted.statusCode, 404)
    assert.match(posted.json().detail, /There is no POST/)
  })

  it('the page allows neither inline script nor another host, and cannot be framed', async () => {
    const { headers, body } = await get('/')
    const policy = headers['content-security-policy'] as string
    assert.match(policy, /default-src 'none'/)
    assert.match(policy, /script-src 'self'(;|$)/)
    assert.match(policy, /frame-ancestors 'none'/)
    assert.doesNotMatch(policy, /unsafe|https?:/)
    assert.doesNotMatch(body, /<script(?![^>]* src=)/)
    assert.doesNotMatch(body, /(src|href)="(https?:)?\/\//)
  })

  it('files with a hash in their name are kept for ever, the page is asked for each time', async () => {
    const [script] = readdirSync(path.join(dist, 'assets')).filter((name) => /^index-.*\.js$/.test(name))
    const plain = await get(`/assets/${script}`, {})
    assert.match(plain.headers['cache-control'] as string, /immutable/)
    const compressed = await get(`/assets/${script}`, { 'accept-encoding': 'gzip, br' })
    assert.equal(compressed.headers['content-encoding'], 'br')
    assert.ok(compressed.rawPayload.length < plain.rawPayload.length / 2)
    const page = await get('/')
    assert.equal(page.headers['cache-control'], 'no-cache')
    const again = await get('/', { ...HTML, 'if-none-match': page.headers.etag as string })
    assert.equal(again.statusCode, 304)
    assert.equal(again.body, '')
  })

  it('a path does not leave the folder', async () => {
    for (const url of ['/assets/../index.html', '/assets/%2e%2e/%2e%2e/package.json', '/..%2fpackage.json'])
      assert.notEqual((await get(url, {})).statusCode, 200, url)
  })

  it('tells the page what a stranger may know', async () => {
    assert.match(
      (await get('/')).body,
      /<meta name="sluice" content="\{&quot;signup&quot;:&quot;open&quot;,&quot;provider&quot;:false\}"/,
    )
  })

  it('the first page loads at most 200 KB of compressed JavaScript', async () => {
    const { body } = await get('/')
    const scripts = [...body.matchAll(/(?:src|href)="(\/assets\/[^"]+\.js)"/g)].map(([, url]) => url!)
    assert.ok(scripts.length > 0)
    let bytes = 0
    for (const url of scripts) bytes += (await get(url, { 'accept-encoding': 'br' })).rawPayload.length
    assert.ok(bytes <= 200_000, `${bytes} bytes`)
  })
})
