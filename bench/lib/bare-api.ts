/**
 * The baseline for a request: the least that a Fastify + pg service must do for it on the same database. It verifies
 * the token with jose, reads the membership, reads the requested rows and serialises them by a schema. Nothing else: no
 * session, no permissions, no request id, no checks, no headers.
 */
import fastify from 'fastify'
import { jwtVerify } from 'jose'
import pg from 'pg'

const { connection, secret } = JSON.parse(process.env.BARE!) as { connection: pg.PoolConfig; secret: string }
const pool = new pg.Pool({ ...connection, max: 16 })
const key = new TextEncoder().encode(secret)

const text = { type: 'string' }
const optional = { type: ['string', 'null'] }
const me = {
  type: 'object',
  properties: {
    id: text,
    email: text,
    name: text,
    avatar_url: optional,
    role: text,
    created_at: text,
    organization: { type: 'object', properties: { id: text, name: text, slug: text } },
  },
}
const member = {
  type: 'object',
  properties: { id: text, email: text, name: text, avatar_url: optional, role: text, joined_at: text },
}

const app = fastify()

app.get('/me', { schema: { response: { 200: me } } }, async (request) => {
  const { payload } = await jwtVerify(request.headers.authorization!.slice(7), key)
  const { rows } = await pool.query({
    name: 'me',
    text: `SELECT u.id, u.email, u.name, u.avatar_url, u.created_at, m.role, o.id AS organization_id, o.name AS organization_name, o.slug
             FROM memberships m JOIN users u ON u.id = m.user_id JOIN organizations o ON o.id = m.organization_id
            WHERE m.user_id = $1 AND m.organization_id = $2`,
    values: [payload.sub, payload.org],
  })
  const { organization_id, organization_name, slug, ...user } = rows[0]
  return { ...user, organization: { id: organization_id, name: organization_name, slug } }
})

app.get('/members', { schema: { response: { 200: { type: 'array', items: member } } } }, async (request) => {
  const { payload } = await jwtVerify(request.headers.authorization!.slice(7), key)
  const own = await pool.query({
    name: 'member',
    text: 'SELECT role FROM memberships WHERE user_id = $1 AND organization_id = $2',
    values: [payload.sub, payload.org],
  })
  if (own.rows.length === 0) throw new Error('not a member')
  const { rows } = await pool.query({
    name: 'members',
    text: `SELECT u.id, u.email, u.name, u.avatar_url, m.role, m.joined_at FROM memberships m JOIN users u ON u.id = m.user_id
            WHERE m.organization_id = $1 ORDER BY m.joined_at DESC, u.id`,
    values: [payload.org],
  })
  return rows
})

await app.listen({ host: '127.0.0.1', port: 0 })
const address = app.server.address()
process.send!(typeof address === 'object' ? address!.port : 0)
