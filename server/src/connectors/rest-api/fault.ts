import { ConnectorError } from '../contract.ts'

/** A setting that cannot be used. `at` is its path, as it stands in the settings. */
export function fault(at: string, why: string): ConnectorError {
  return new ConnectorError('config', `${at}: ${why}`)
}
