/** A sender in a separate process, on the database given by its arguments, until it is killed. With a mail server it logs, too. */
import { connectDatabase } from '../../src/database/database.ts'
import { createSecretBox } from '../../src/database/secret-box.ts'
import { createEgress } from '../../src/egress/policy.ts'
import { createLog } from '../../src/log.ts'
import { startWebhookDeliveries } from '../../src/webhooks/deliveries.ts'

const [database, key, mailServer] = process.argv.slice(2) as [string, string, string?]
const connection = { ...JSON.parse(process.env.TEST_POSTGRES!), database }
await startWebhookDeliveries({
  db: connectDatabase(connection, 2, () => {}),
  box: createSecretBox([key]),
  egress: createEgress({ allow: ['127.0.0.0/8'], self: [] }),
  config: {
    SMTP_URL: mailServer,
    SMTP_FROM: 'alerts@example.org',
    ALERT_EMAIL_DOMAINS: ['ops.example.com'],
    SIGNUP: 'open',
    FRONTEND_URL: 'http://localhost',
  },
  log: createLog({ LOG_LEVEL: mailServer ? 'debug' : 'silent' }, false),
})
