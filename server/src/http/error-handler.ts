import type { Socket } from 'node:net'
import type { FastifyError, FastifyReply, FastifyRequest, FastifySchemaValidationError } from 'fastify'
import { BlobStoreUnavailable } from '../blobs/blobs.ts'
import { DiskFull } from '../blobs/disk-space.ts'
import { DamagedPart } from '../blobs/parts.ts'
import { hintAtKnown } from '../connectors/settings/settings.ts'
import { isDatabaseError } from '../database/database.ts'
import { DatabaseUnavailable, isPoolFull } from '../database/unreachable.ts'
import { AppError, catalogue, type ErrorCode } from '../errors.ts'
import { ruleOf } from './schemas/common.ts'

export function handleError(
  error: FastifyError | AppError | Error,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const known = toAppError(error, request.routeOptions?.bodyLimit)
  if (known.status >= 500) request.log.error({ err: error }, 'request failed')
  else request.log.debug({ detail: known.message, status: known.status }, 'request refused')
  // Fastify would close the connection on a body that is too large. A client that still sends would then find it
  // broken, and most never read the answer; so the rest is read and dropped, as with every other refusal.
  if (known.status === 413) reply.removeHeader('connection')
  void reply
    .code(known.status)
    .headers(known.headers)
    .type('application/json; charset=utf-8')
    .send({ detail: known.message, ...known.more })
}

export function handleNotFound(request: FastifyRequest, reply: FastifyReply): void {
  void reply.code(404).send({
    detail: `There is no ${request.method} ${shorten(request.url.split('?')[0]!)}; the API reference is at /docs`,
  })
}

const BROKEN: Record<string, string> = {
  HPE_HEADER_OVERFLOW: 'The headers are too large',
  ERR_HTTP_REQUEST_TIMEOUT: 'The request took too long to arrive',
}

/** What is not HTTP at all never becomes a request; it gets the same form of answer. */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const detail = BROKEN[error.code ?? ''] ?? 'This is not a valid HTTP request'
  const body = JSON.stringify({ detail })
  socket.end(
    `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  )
}

function toAppError(error: FastifyError | AppError | Error, bodyLimit = 1024 * 1024): AppError {
  if (error instanceof AppError) return error
  if (error instanceof DamagedPart)
    return new AppError('internal', 'The stored output is damaged and cannot be served; run the pipeline again')
  const unavailable = explainUnavailable(error)
  if (unavailable !== null) return new AppError('unavailable', unavailable, { 'Retry-After': '5' })
  if ('validation' in error && error.validation) return new AppError('invalid_input', describeFault(error))
  const status = 'statusCode' in error ? error.statusCode : undefined
  if ('code' in error && error.code === 'FST_ERR_BAD_URL')
    return new AppError('invalid_input', 'The address has a % that does not begin a valid escape; write it as %25')
  if (status === 413)
    return new AppError('too_large', `The body is too large; at most ${bodyLimit / 1024 / 1024} MB is allowed`)
  if (status === 415)
    return new AppError('invalid_input', 'The body must be JSON, sent with Content-Type: application/json')
  if (status === 503) return new AppError('unavailable', 'The service is shutting down; try again in a moment')
  if (status !== undefined && status >= 400 && status < 500) {
    const code = (Object.keys(catalogue) as ErrorCode[]).find((name) => catalogue[name].status === status)
    return new AppError(code ?? 'invalid_input', readable(error.message))
  }
  return new AppError('internal', 'Internal server error')
}

/** Explains a temporary failure, or one that an operator has to fix; null for every other error. */
function explainUnavailable(error: Error): string | null {
  if (error instanceof DatabaseUnavailable) {
    if (error.code === '53300' || isPoolFull(error))
      return 'No connection to the database is free; try again in a moment'
    return error.code === '25006'
      ? 'The database is read-only at the moment; try again in a moment'
      : 'The database does not answer; try again in a moment'
  }
  if (error instanceof BlobStoreUnavailable) return 'The object store does not answer; try again in a moment'
  if (error instanceof DiskFull)
    return 'There is no space left to store this; try again when an operator has freed some'
  return Object.entries(DATABASE_TROUBLE).find(([code]) => isDatabaseError(error, code))?.[1] ?? null
}

const DATABASE_TROUBLE: Record<string, string> = {
  53100: 'The disk of the database is full; try again when an operator has freed space',
  53200: 'The database is out of memory; try again in a moment',
  57014: 'The database took too long to answer; try again, or request less',
  '55P03': 'Another request is changing the same object; try again in a moment',
  '25P03': 'The database cancelled the request because it took too long; try again',
}

const readable = (message: string) =>
  shorten(/JSON|Unexpected (token|end)/.test(message) ? `The body is not valid JSON: ${message}` : message)

/** An error does not send back all that it was sent. */
const shorten = (text: string) => (text.length > 200 ? `${text.slice(0, 200)}…` : text)

/** One sentence that names the place, what is wrong and what is allowed. */
function describeFault(error: FastifyError): string {
  const fault = error.validation?.[0] as FastifySchemaValidationError | undefined
  if (!fault) return error.message
  const context = error.validationContext ?? 'body'
  const missing =
    fault.keyword === 'required' ? String((fault.params as { missingProperty?: string }).missingProperty ?? '') : ''
  const steps = fault.instancePath.split('/').slice(1)
  if (missing !== '') return `${[...steps, missing].join('.')}: this field is required`
  const place = steps.length > 0 ? steps.join('.') : context === 'body' ? 'The body' : context
  const params = fault.params as Record<string, unknown>
  switch (fault.keyword) {
    case 'enum':
      return `${place}: must be one of ${(params.allowedValues as unknown[]).map((value) => JSON.stringify(value)).join(', ')}`
    case 'additionalProperties':
      return describeUnknown(steps, String(params.additionalProperty), params.known as string[] | undefined, context)
    case 'format':
      return `${place}: must be ${FORMATS[String(params.format)] ?? `a valid ${String(params.format)}`}`
    case 'type':
      return `${place}: must be ${article(String(params.type))}`
    case 'minLength':
      return `${place}: must not be empty`
    case 'maxLength':
      return `${place}: must be at most ${String(params.limit)} characters long`
    case 'pattern':
      return `${place}: ${ruleOf(String(params.pattern))}`
    case 'minItems':
      return `${place}: must have at least ${String(params.limit)} item${params.limit === 1 ? '' : 's'}`
    case 'maxItems':
      return `${place}: must have at most ${String(params.limit)} items`
    case 'uniqueItems':
      return `${place}: must not have the same item twice`
    case 'minimum':
      return `${place}: must be ${String(params.limit)} or more`
    case 'maximum':
      return `${place}: must be at most ${String(params.limit)}`
    case 'anyOf':
    case 'oneOf':
      return `${place}: is not valid; see /docs for what is allowed`
    default:
      return `${place}: ${fault.message ?? 'does not fit'}`
  }
}

function describeUnknown(steps: string[], name: string, known: string[] | undefined, context: string): string {
  const what = context === 'querystring' ? 'query parameter' : 'field'
  const hint = known?.length === 0 ? '; this route takes none' : hintAtKnown(name, known ?? [])
  return `${shorten([...steps, name].join('.'))}: unknown ${what}${hint}`
}

const FORMATS: Record<string, string> = {
  uuid: 'a valid UUID',
  'date-time': 'a time such as 2026-01-31T12:00:00Z, or a date',
}

const article = (type: string) =>
  /^[aeiou]/.test(type) ? `an ${type}` : type === 'null' ? 'null' : `a ${type.replaceAll(',', ' or ')}`
