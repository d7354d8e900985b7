import { type Static, Type } from '../../schema.ts'
import { identity, overridable, secret } from '../contract.ts'

export const settings = Type.Object(
  {
    url: identity(
      Type.String({
        pattern: '^https?://',
        maxLength: 2000,
        description: 'Where batches are sent. Use https; put keys into headers, not into the address.',
      }),
    ),
    method: overridable(
      Type.Union([Type.Literal('POST'), Type.Literal('PUT')], { default: 'POST', description: 'The HTTP method.' }),
    ),
    headers: secret(
      Type.Unsafe<Record<string, string>>(
        Type.Object(
          {},
          {
            additionalProperties: Type.String({ maxLength: 8000 }),
            default: {},
            description: 'Headers of every request, such as Authorization. Their values are secrets.',
          },
        ),
      ),
    ),
    secret: Type.Optional(
      secret(
        Type.String({
          minLength: 16,
          maxLength: 500,
          description: 'Signs every request (HMAC-SHA256 in X-Sluice-Signature). At least 16 characters.',
        }),
      ),
    ),
    format: overridable(
      Type.Union([Type.Literal('json'), Type.Literal('ndjson')], {
        default: 'json',
        description: 'json: an object with the array `records`. ndjson: one record per line.',
      }),
    ),
    batch_records: overridable(
      Type.Integer({ minimum: 1, maximum: 10_000, default: 100, description: 'The most records of a request.' }),
    ),
    batch_bytes: overridable(
      Type.Integer({
        minimum: 1024,
        maximum: 16 * 1024 * 1024,
        default: 1024 * 1024,
        description: 'The most bytes of records in a request. A record that is larger is sent alone.',
      }),
    ),
    timeout_seconds: overridable(
      Type.Integer({ minimum: 1, maximum: 300, default: 30, description: 'How long the receiver may take to answer.' }),
    ),
    max_attempts: overridable(
      Type.Integer({
        minimum: 1,
        maximum: 20,
        default: 5,
        description: 'How often a request is sent that gets no answer, or one that may pass (408, 425, 429, 5xx).',
      }),
    ),
  },
  { additionalProperties: false },
)

export type Settings = Static<typeof settings>
