import { ConnectorError, type Destination } from '../contract.ts'
import { explainRequest, explainStatus } from '../http-failures.ts'
import { openLoad } from './load.ts'
import { notes } from './notes.ts'
import { settings } from './settings.ts'

const CHECK_MS = 10_000

export const webhookDestination: Destination<typeof settings> = {
  kind: 'destination',
  name: 'webhook',
  display_name: 'Webhook',
  description:
    'Sends batches of records as JSON to an HTTP address of yours, signed, with an idempotency key for each.',
  settings,
  capabilities: { write: ['append'], encodings: ['ndjson'], commits: 'batch', quarantine: true },
  example_config: {
    name: 'webhook',
    config: {
      url: 'https://api.example.com/records',
      headers: { authorization: 'Bearer a token' },
      secret: 'a secret of your choice',
      batch_records: 100,
    },
  },
  notes,

  /** Without a batch there is nothing to send, so only the address and a plain refusal are noticed. */
  async check({ config, egress, signal }) {
    const { host } = new URL(config.url)
    const answer = await egress
      .stream(config.url, { method: 'HEAD', headers: config.headers, signal, timeoutMs: CHECK_MS, maxRedirects: 0 })
      .catch((error: unknown) => {
        signal.throwIfAborted()
        throw explainRequest(error, 'destination', `${host} cannot be reached`)
      })
    answer.body.destroy()
    const { status } = answer
    if (status === 401 || status === 403 || status >= 500) throw explainStatus(status, host, 'destination')
    if (status >= 300 && status < 400)
      throw new ConnectorError(
        'config',
        `${host} answered ${status}: redirects are not followed, give the final address`,
      )
  },

  async fence() {
    return null
  },

  open: openLoad,
}
