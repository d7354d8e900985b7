/**
 * The baseline for lists: the least that a Fastify + pg service must do to answer one. It verifies the token with jose,
 * reads the membership, reads the page with the same columns and serialises it by a schema. Nothing else: no total, no
 * filters, no input validation, no headers.
 */
import fastify from 'fastify'
import { jwtVerify } from 'jose'
import pg from 'pg'

const { connection, secret } = JSON.parse(process.env.BARE!) as { connection: pg.PoolConfig; secret: string }
const pool = new pg.Pool({ ...connection, max: 16 })
const key = new TextEncoder().encode(secret)
const text = { type: 'string', nullable: true }
const fields = ['id', 'name', 'schedule', 'domain_id', 'domain_name', 'last_run_status', 'last_run_at', 'created_at']
const item = {
  type: 'object',
  properties: { ...Object.fromEntries(fields.map((field) => [field, text])), enabled: { type: 'boolean' } },
}

const app = fastify()
app.get('/list', { schema: { response: { 200: { type: 'array', items: item } } } }, async (request) => {
  const { payload } = await jwtVerify(request.headers.authorization!.slice(7), key)
  const member = await pool.query({
    name: 'member',
    text: 'SELECT role FROM memberships WHERE user_id = $1 AND organization_id = $2',
    values: [payload.sub, payload.org],
  })
  if (member.rows.length === 0) throw new Error('no member')
  const page = await pool.query({
    name: 'page',
    text: `SELECT p.id, p.name, p.schedule, p.enabled, p.domain_id, d.name AS domain_name, a.last_run_status, a.last_run_at, p.created_at
             FROM pipelines p JOIN pipeline_activity a ON a.pipeline_id = p.id LEFT JOIN domains d ON d.id = p.domain_id
            WHERE p.organization_id = $1 ORDER BY p.created_at DESC, p.id LIMIT $2 OFFSET $3`,
    values: [payload.org, 100, 0],
  })
  return page.rows
})
await app.listen({ host: '127.0.0.1', port: 0 })
const address = app.server.address()
process.send!(typeof address === 'object' ? address!.port : 0)
