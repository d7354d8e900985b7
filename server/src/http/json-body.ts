/**
 * JSON bodies. Parsed without prototypes being touched, and refused where PostgreSQL could not store them as they are:
 * a NUL, a lone surrogate, or nesting deeper than anything we accept.
 */
import { isUtf8 } from 'node:buffer'
import type { FastifyInstance } from 'fastify'
import { AppError } from '../errors.ts'

const MAX_DEPTH = 100

export function acceptJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (_request, bytes, done) => {
    try {
      done(null, parseBody(decodeBody(bytes)))
    } catch (error) {
      done(error as Error, undefined)
    }
  })
}

/** Bytes that are no UTF-8 would be replaced without a word, and something else be stored than was sent. */
export function decodeBody(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new AppError('invalid_input', 'The body is not valid JSON: it is not UTF-8')
  return bytes.toString()
}

export function parseBody(text: string): unknown {
  if (text.trim() === '') return undefined
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new AppError('invalid_input', `The body is not valid JSON: ${(error as Error).message.slice(0, 200)}`)
  }
  inspect(value)
  return value
}

function inspect(root: unknown): void {
  const stack: { value: unknown; depth: number }[] = [{ value: root, depth: 0 }]
  for (let item = stack.pop(); item !== undefined; item = stack.pop()) {
    const { value, depth } = item
    if (typeof value === 'string') inspectText(value)
    else if (typeof value === 'object' && value !== null) {
      if (depth >= MAX_DEPTH)
        throw new AppError('invalid_input', `The body is nested too deep; at most ${MAX_DEPTH} levels are taken`)
      if (Array.isArray(value)) for (const inner of value) stack.push({ value: inner, depth: depth + 1 })
      else
        for (const [key, inner] of Object.entries(value)) {
          if (key === '__proto__')
            throw new AppError('invalid_input', 'The body has a field named __proto__, which is not allowed')
          inspectText(key)
          stack.push({ value: inner, depth: depth + 1 })
        }
    }
  }
}

function inspectText(text: string): void {
  if (text.includes('\0')) throw new AppError('invalid_input', 'The body has a NUL character in a text; remove it')
  if (!text.isWellFormed())
    throw new AppError('invalid_input', 'The body has half of a surrogate pair in a text; send valid Unicode')
}
