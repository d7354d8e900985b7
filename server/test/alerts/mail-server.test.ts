/** A sender in its own process signs in to a mail server that somebody else wrote, with TLS and a password. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { after, beforeEach, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { sql } from '../../src/database/database.ts'
import { type Person, registerPerson, SECRET, startApp } from '../harness/app.ts'
import { authority, serverCertificate, serverKey } from '../harness/certificates.ts'
import { startProgram } from '../harness/processes.ts'
import { createAlert, endRun, insertPipeline, readQueue, settled } from './setup.ts'

const app = await startApp({
  SMTP_URL: 'smtp://127.0.0.1:1',
  SMTP_FROM: 'alerts@example.org',
  ALERT_EMAIL_DOMAINS: 'ops.example.com',
})
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-mail-'))
const authorityFile = path.join(folder, 'authority.pem')
writeFileSync(authorityFile, authority)
after(() => rmSync(folder, { recursive: true }))

const USER = 'relay@example.org'
const PASSWORD = 'p@ss word/ü%?'
/** As it is written in an address, and as it travels. */
const FORMS = [
  PASSWORD,
  encodeURIComponent(PASSWORD),
  Buffer.from(PASSWORD).toString('base64'),
  Buffer.from(`\0${USER}\0${PASSWORD}`).toString('base64'),
]

interface Taken {
  user: unknown
  secure: boolean
  to: string[]
  text: string
}

interface MailServer {
  port: number
  mails: Taken[]
  /** How often somebody tried to sign in. */
  attempts(): number
}

async function startMailServer(options: SMTPServerOptions): Promise<MailServer> {
  const mails: Taken[] = []
  let attempts = 0
  const server = new SMTPServer({
    key: serverKey,
    cert: serverCertificate,
    disableReverseLookup: true,
    onAuth({ username, password }, _session, done) {
      attempts++
      if (username === USER && password === PASSWORD) done(null, { user: username })
      else done(new Error(`${password} is not the password of ${username}`))
    },
    onData(stream, { user, secure, envelope }, done) {
      void text(stream).then((body) => {
        mails.push({ user, secure, to: envelope.rcptTo.map(({ address }) => address), text: body })
        done()
      })
    },
    ...options,
  })
  server.on('error', () => {})
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  after(() => new Promise<void>((closed) => server.close(() => closed())))
  return { port: (server.server.address() as { port: number }).port, mails, attempts: () => attempts }
}

let owner: Person
let pipelineId: string

beforeEach(async () => {
  owner = await registerPerson(app, 'Owner')
  pipelineId = await insertPipeline(app, owner.organization_id)
})

interface Sending {
  scheme: 'smtp' | 'smtps'
  port: number
  host?: string
  password?: string
  trusts?: boolean
}

/** What became of an alert, as the API shows it; and nothing of it, nor the log, contains the password. */
async function sendBy({ scheme, port, host = '127.0.0.1', password = PASSWORD, trusts = true }: Sending) {
  const channel = { type: 'email', to: ['team@ops.example.com'] }
  const alert = await createAlert(app, owner, { on: ['failed'], channel })
  await endRun(app, pipelineId, { status: 'failed' })
  const { name } = (await app.services.db.first<{ name: string }>(sql`SELECT current_database() AS name`))!
  const program = fileURLToPath(new URL('../webhooks/send-until-killed.ts', import.meta.url))
  const url = `${scheme}://${encodeURIComponent(USER)}:${encodeURIComponent(password)}@${host}:${port}`
  const { NODE_EXTRA_CA_CERTS: _, ...env } = process.env
  const sender = startProgram(process.execPath, [program, name, SECRET, url], {
    env: { ...env, ...(trusts && { NODE_EXTRA_CA_CERTS: authorityFile }) },
  })
  await settled(app, alert)
  const list = await app.call('GET', `/api/alerts/${alert.id}/deliveries`, { as: owner })
  // A line of the log is written a moment after it was logged.
  if (list.body[0].error !== null) await sender.said(/"reason":.*\n/)
  sender.child.kill('SIGKILL')
  const { stdout, stderr } = await sender.ended
  const log = stdout + stderr
  for (const form of FORMS)
    for (const [place, shown] of Object.entries({
      log,
      list: list.text,
      queue: JSON.stringify(await readQueue(app, alert)),
    }))
      assert.ok(!shown.includes(form), `the ${place} contains the password: ${shown}`)
  return { delivery: list.body[0] as { status: string; attempts: number; error: string | null }, log }
}

describe('with a password', () => {
  for (const [how, scheme, secure] of [
    ['TLS from the start', 'smtps', true],
    ['STARTTLS', 'smtp', false],
  ] as const) {
    for (const method of ['PLAIN', 'LOGIN'])
      test(`a mail is sent by ${how}, signed in by ${method}`, async () => {
        const server = await startMailServer({ secure, authMethods: [method] })
        const { delivery } = await sendBy({ scheme, port: server.port })
        assert.deepEqual([delivery.status, delivery.error], ['delivered', null])
        const [mail] = server.mails
        assert.equal(server.mails.length, 1)
        assert.deepEqual([mail!.user, mail!.secure, mail!.to], [USER, true, ['team@ops.example.com']])
        assert.match(mail!.text, /^Subject: =\?UTF-8\?.*Orders_failed\?=\r$/m)
      })

    test(`a wrong one is told as such, by ${how}, and tried again later`, async () => {
      const server = await startMailServer({ secure })
      const { delivery, log } = await sendBy({ scheme, port: server.port, password: `${PASSWORD}!` })
      assert.deepEqual(
        [delivery.status, delivery.attempts, delivery.error],
        [
          'pending',
          1,
          'The mail server refused the user or the password of this service; its operator has to check SMTP_URL',
        ],
      )
      assert.match(log, /"code":"EAUTH","reason":"Invalid login: 535 .*is not the password of relay@example\.org/)
      assert.equal(server.mails.length, 0)
    })

    for (const [what, more] of [
      ['that nobody known signed', { trusts: false }],
      ['of another host', { host: 'localhost' }],
    ] as const)
      test(`a certificate ${what} is not trusted, by ${how}, and nobody signs in`, async () => {
        const server = await startMailServer({ secure })
        const { delivery, log } = await sendBy({ scheme, port: server.port, ...more })
        assert.deepEqual(
          [delivery.status, delivery.attempts, delivery.error],
          [
            'pending',
            1,
            'The certificate of the mail server is not trusted; the operator of this service finds the cause in the log',
          ],
        )
        assert.match(log, /"code":"ESOCKET","reason":"[^"]*certificate/)
        assert.equal(server.attempts(), 0)
      })
  }

  test('nothing is sent to a server without STARTTLS', async () => {
    const server = await startMailServer({ disabledCommands: ['STARTTLS'], allowInsecureAuth: true })
    const { delivery } = await sendBy({ scheme: 'smtp', port: server.port })
    assert.deepEqual(
      [delivery.status, delivery.attempts, delivery.error],
      [
        'pending',
        1,
        'The mail server offers no TLS, and a password is never sent without it; the operator of this service has to change SMTP_URL',
      ],
    )
    assert.equal(server.attempts(), 0)
    assert.equal(server.mails.length, 0)
  })
})
