/** A sender in a separate process, on the database given by its arguments, until it is killed. */
import { pino } from 'pino'
import { connectDatabase } from '../../src/database/database.ts'
import { createSecretBox } from '../../src/database/secret-box.ts'
import { createEgress } from '../../src/egress/policy.ts'
import { startWebhookDeliveries } from '../../src/webhooks/deliveries.ts'

const [database, key] = process.argv.slice(2) as [string, string]
const connection = { ...JSON.parse(process.env.TEST_POSTGRES!), database }
await startWebhookDeliveries({
  db: connectDatabase(connection, 2, () => {}),
  box: createSecretBox([key]),
  egress: createEgress({ allow: ['127.0.0.0/8'], self: [] }),
  config: {
    SMTP_URL: undefined,
    SMTP_FROM: undefined,
    ALERT_EMAIL_DOMAINS: [],
    SIGNUP: 'open',
    FRONTEND_URL: 'http://localhost',
  },
  log: pino({ level: 'silent' }),
})
