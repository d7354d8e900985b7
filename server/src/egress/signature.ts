import { createHmac } from 'node:crypto'

/** The value of X-Sluice-Signature: over the time in seconds, a dot, and the body as it is sent. */
export const sign = (secret: string, timestamp: number, body: string | Buffer): string =>
  `sha256=${createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')}`
