import type { FastifyReply } from 'fastify'

/** Sends a list that came as JSON text from the database, as it is. A test must prove that such a text fits its schema. */
export const sendJsonList = (reply: FastifyReply, list: { json: string; total: number }): never =>
  reply
    .header('X-Total-Count', list.total)
    .header('Content-Type', 'application/json; charset=utf-8')
    .send(list.json) as never
