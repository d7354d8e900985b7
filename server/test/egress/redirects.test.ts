import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cleanHeaders, type Hop, nextHop } from '../../src/egress/redirects.ts'

const post: Hop = {
  url: new URL('https://api.example/a'),
  method: 'POST',
  headers: { authorization: 'Bearer s', cookie: 'c=1', 'x-api-key': 'k', accept: 'a/b', 'content-type': 'text/plain' },
  body: 'text',
}
const get: Hop = { ...post, method: 'GET', body: null }

test('301, 302 and 303 turn a POST into a GET without its body', () => {
  for (const status of [301, 302, 303]) {
    const hop = nextHop(post, status, '/b')
    assert.deepEqual([hop.method, hop.body, hop.url.href], ['GET', null, 'https://api.example/b'])
    assert.equal(hop.headers['content-type'], undefined)
    assert.equal(hop.headers.authorization, 'Bearer s')
  }
})

test('307 and 308 keep method and body on the same origin', () => {
  for (const status of [307, 308]) {
    const hop = nextHop(post, status, 'b')
    assert.deepEqual([hop.method, hop.body, hop.headers], ['POST', 'text', post.headers])
  }
})

test('303 changes a PUT but not a HEAD; 301 changes no PUT', () => {
  assert.equal(nextHop({ ...post, method: 'PUT' }, 303, '/b').method, 'GET')
  assert.equal(nextHop({ ...get, method: 'HEAD' }, 303, '/b').method, 'HEAD')
  assert.equal(nextHop({ ...post, method: 'PUT' }, 301, '/b').method, 'PUT')
})

test('another origin gets no header that could contain a credential', () => {
  for (const location of [
    'https://other.example/',
    '//other.example/',
    'https://api.example:444/',
    'https://api.example.evil/',
  ])
    assert.deepEqual(nextHop(get, 302, location).headers, { accept: 'a/b', 'content-type': 'text/plain' }, location)
})

test('another origin gets no body', () => {
  assert.throws(() => nextHop(post, 307, 'https://other.example/'), { name: 'EgressRefused', reason: 'redirect' })
})

test('https is never redirected to http', () => {
  assert.throws(() => nextHop(get, 302, 'http://api.example/'), { reason: 'redirect', message: /from https to http/ })
  assert.equal(nextHop({ ...get, url: new URL('http://a.example/') }, 302, 'https://a.example/').url.protocol, 'https:')
})

test('an invalid location is refused', () => {
  assert.throws(() => nextHop(get, 302, 'https://'), { reason: 'redirect' })
})

test('headers of the connection are dropped, including those that Connection names', () => {
  assert.deepEqual(
    cleanHeaders({
      Host: 'victim',
      Connection: 'close, X-Hop',
      'X-Hop': '1',
      'Transfer-Encoding': 'chunked',
      'Content-Length': '5',
      'Proxy-Authorization': 'x',
      Upgrade: 'h2c',
      TE: 'trailers',
      'X-Kept': 'yes',
    }),
    { 'x-kept': 'yes' },
  )
})
