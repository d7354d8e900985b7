/** Where tenants want to be notified, checked when they say it. */
import { AppError } from '../errors.ts'
import { type Egress, EgressRefused } from './policy.ts'

/**
 * Refuses here what would be refused at every delivery. A host name is resolved, and checked again, only at delivery.
 * `instead` says how the receiver knows who calls, if not by a password.
 */
export function checkReceiver(egress: Pick<Egress, 'checkUrl'>, text: string, path: string, instead: string): URL {
  const url = URL.parse(text)
  if (!url || (url.protocol !== 'https:' && url.protocol !== 'http:'))
    throw new AppError('invalid_input', `${path}: must be an address that begins with https:// or http://`)
  if (url.username !== '' || url.password !== '')
    throw new AppError('invalid_input', `${path}: must not contain a user name or password; ${instead}`)
  try {
    egress.checkUrl(url)
  } catch (error) {
    if (error instanceof EgressRefused) throw new AppError('invalid_input', `${path}: ${error.message}`)
    throw error
  }
  return url
}
