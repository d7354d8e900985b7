import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { pino } from 'pino'
import { sendMail } from '../../src/alerts/email.ts'
import { MAILS_PER_HOUR } from '../../src/alerts/send.ts'
import { sql } from '../../src/database/database.ts'
import { notifyRun } from '../../src/database/notifications.ts'
import { type Organization, registerOrganization, startApp } from '../harness/app.ts'
import { serverCertificate, serverKey } from '../harness/certificates.ts'
import { startSmtpServer } from '../harness/smtp-server.ts'
import { createAlert, endRun, insertPipeline, readQueue, settled, whileSending } from './setup.ts'

const server = await startSmtpServer()
const from = 'Sluice <alerts@example.org>'
const app = await startApp({
  SMTP_URL: `smtp://127.0.0.1:${server.port}`,
  SMTP_FROM: from,
  ALERT_EMAIL_DOMAINS: 'ops.example.com',
  PUBLIC_URL: 'https://sluice.example.com',
})
const { db } = app.services
let acme: Organization
let pipelineId: string

beforeEach(async () => {
  acme = await registerOrganization(app, 'Acme')
  pipelineId = await insertPipeline(app, acme.id)
  await db.execute(
    sql`UPDATE users SET email_verified_at = now() WHERE id IN (SELECT user_id FROM memberships WHERE organization_id = ${acme.id})`,
  )
})

const email = (...to: string[]) => ({ type: 'email', to })
const watch = (channel: object) => createAlert(app, acme.owner, { on: ['failed', 'recovered'], channel })
const decoded = (text: string) =>
  text.replace(/=\r\n/g, '').replace(/(=[0-9A-F]{2})+/g, (bytes) => decodeURIComponent(bytes.replaceAll('=', '%')))

describe('by e-mail', () => {
  test('an alert reaches members and addresses of the operator, as text and as HTML', async () => {
    await db.execute(sql`UPDATE pipelines SET name = ${'<b>Orders</b> & "more"'} WHERE id = ${pipelineId}`)
    const to = [acme.owner.email, 'team@ops.example.com']
    await watch(email(acme.owner.email.toUpperCase(), 'team@ops.example.com'))
    await whileSending(app, async () => {
      const runId = await endRun(app, pipelineId, { status: 'failed', error: 'source: <script>alert(1)</script>' })
      const mail = await server.next()
      assert.equal(mail.from, 'alerts@example.org')
      assert.deepEqual(mail.to, to)
      assert.match(mail.text, /^From: Sluice <alerts@example\.org>$/m)
      assert.match(mail.text, /^Auto-Submitted: auto-generated$/m)
      assert.match(mail.text, /^Message-ID: <[\w-]{36}@example\.org>$/m)
      const text = decoded(mail.text)
      assert.ok(text.includes('\r\nsource: <script>alert(1)</script>\r\n'), 'the plain part is as the run says it')
      assert.ok(text.includes('&lt;b&gt;Orders&lt;/b&gt; &amp; &quot;more&quot; failed'))
      assert.ok(text.includes('<p>source: &lt;script&gt;alert(1)&lt;/script&gt;</p>'))
      assert.ok(text.includes(`<a href="https://sluice.example.com/runs/${runId}">Open the run</a>`))
      await endRun(app, pipelineId, { status: 'success' })
      const end = await server.next()
      const thread = /^References: (.*)$/m
      assert.equal(thread.exec(end.text)![1], thread.exec(mail.text)![1])
    })
  })

  test('a name with a line break adds no header', async () => {
    await db.execute(
      sql`UPDATE pipelines SET name = ${'Orders\r\nBcc: victim@example.com\r\n\r\nBody'} WHERE id = ${pipelineId}`,
    )
    await watch(email(acme.owner.email))
    await whileSending(app, async () => {
      await endRun(app, pipelineId, { status: 'failed' })
      const mail = await server.next()
      assert.deepEqual(mail.to, [acme.owner.email])
      assert.ok(!/^Bcc:/im.test(mail.text))
    })
  })

  test('a message for many has one subject line, and no header of a name', async () => {
    const names = ['Orders\r\nBcc: victim@example.com', 'Tickets\nSubject: free', 'x'.repeat(255)]
    const ids = await Promise.all(names.map((name) => insertPipeline(app, acme.id, { name })))
    const alert = await watch(email(acme.owner.email))
    for (const id of ids) await endRun(app, id, { status: 'failed', error: '<b>no</b>\r\n.\r\nMAIL FROM:<a@b.c>' })
    await whileSending(app, async () => {
      const mail = await server.next()
      assert.deepEqual(mail.to, [acme.owner.email])
      const [head] = mail.text.split('\r\n\r\n') as [string]
      assert.equal(head.match(/^Subject:/gm)?.length, 1)
      assert.ok(!/^Bcc:/im.test(head))
      const text = decoded(mail.text)
      assert.ok(text.includes('– Tickets Subject: free: <b>no</b> . MAIL FROM:<a@b.c>'))
      assert.ok(text.includes('<a href="https://sluice.example.com/pipelines?status=failed">Open the pipelines</a>'))
      await settled(app, alert)
    })
  })

  test('somebody who left the organization gets nothing', async () => {
    const alert = await watch(email(acme.member.email, acme.owner.email))
    const alone = await watch(email(acme.member.email))
    await app.call('DELETE', `/api/users/${acme.member.id}`, { as: acme.owner })
    await whileSending(app, async () => {
      await endRun(app, pipelineId, { status: 'failed' })
      assert.deepEqual((await server.next()).to, [acme.owner.email])
      await settled(app, alert)
      await settled(app, alone)
    })
    assert.match((await readQueue(app, alone))[0]!.error!, /^None of the recipients is a member/)
  })

  test('a refusal for good ends it, one for now is tried again, and both say what the server said', async () => {
    const gone = await watch(email('nobody@ops.example.com'))
    const later = await watch(email('later@ops.example.com'))
    await whileSending(app, async () => {
      await endRun(app, pipelineId, { status: 'failed' })
      await settled(app, gone)
      await settled(app, later)
    })
    const [refused] = await readQueue(app, gone)
    assert.equal(refused!.status, 'failed')
    assert.match(refused!.error!, /^The mail server answered 550 5\.1\.1 no such mailbox/)
    const [postponed] = await readQueue(app, later)
    assert.equal(postponed!.status, 'pending')
    assert.match(postponed!.error!, /^The mail server answered 450 4\.2\.0 greylisted/)
  })

  test(`an organization sends ${MAILS_PER_HOUR} mails an hour; more wait and are told together, and a test fails`, async () => {
    const alert = await watch(email(acme.owner.email))
    // Of the hour that begins while this runs, if one does.
    await db.execute(sql`
      INSERT INTO organization_mails (organization_id, hour, mails) VALUES (${acme.id}, date_trunc('hour', now()) + interval '1 hour', ${MAILS_PER_HOUR})`)
    const before = server.count()
    await whileSending(app, async () => {
      for (const id of [pipelineId, await insertPipeline(app, acme.id, { name: 'Tickets' })])
        await endRun(app, id, { status: 'failed' })
      await app.call('POST', `/api/alerts/${alert.id}/test`, { as: acme.owner })
      await settled(app, alert)
      assert.equal(server.count(), before)
      const queued = await readQueue(app, alert)
      const held = queued.filter(({ event }) => event === 'failed')
      assert.equal(held.length, 2)
      for (const { status, attempts, error } of held) {
        assert.deepEqual([status, attempts], ['pending', 0])
        assert.match(error!, /200 mails within an hour; this one waits/)
      }
      const tried = queued.find(({ event }) => event === 'test')!
      assert.equal(tried.status, 'failed')
      assert.match(tried.error!, /200 mails within an hour; test it again later/)
      await db.execute(sql`DELETE FROM organization_mails WHERE organization_id = ${acme.id}`)
      await db.execute(sql`UPDATE webhook_deliveries SET next_attempt_at = now() WHERE alert_id = ${alert.id}`)
      await db.execute(notifyRun('delivery'))
      assert.match((await server.next()).text, /2 pipelines failed: Orders, Tickets/)
    })
  })
})

describe('a recipient', () => {
  test('is refused if anybody can register with any address, and nobody has proven this one', async () => {
    await db.execute(sql`UPDATE users SET email_verified_at = NULL WHERE id = ${acme.owner.id}`)
    const body = { name: 'x', on: ['failed'], channel: email(acme.owner.email) }
    const answer = await app.call('POST', '/api/alerts', { as: acme.owner, body })
    assert.equal(answer.status, 400)
    assert.match(
      answer.body.detail,
      /is not allowed; give addresses of members .* that an identity provider has proven/,
    )
  })

  const refused: [string, unknown, RegExp][] = [
    [
      'a stranger',
      ['stranger@example.com'],
      /stranger@example\.com is not allowed; give addresses of members .* has proven, or of ops\.example\.com/,
    ],
    ['a domain below one that is allowed', ['a@x.ops.example.com'], /is not allowed/],
    ['a domain that only ends like it', ['a@evilops.example.com'], /is not allowed/],
    ['a line break', ['a@ops.example.com\r\nBcc: b@example.com'], /^channel\.to\.0: must be an address/],
    ['a line break of Unicode', ['a\u2028b@ops.example.com'], /^channel\.to\.0: must be an address/],
    ['two addresses in one', ['a@example.com,b@ops.example.com'], /^channel\.to\.0: must be an address/],
    ['angle brackets', ['<x@ops.example.com>'], /^channel\.to\.0: must be an address/],
    ['a null byte', ['a\0@ops.example.com'], /NUL/],
    ['a route', ['a@example.com@ops.example.com'], /^channel\.to\.0: must be an address/],
    ['nobody at all', [], /^channel\.to: is required/],
    [
      'ten thousand',
      Array.from({ length: 10_000 }, (_, n) => `a${n}@ops.example.com`),
      /^channel\.to: must have at most 20/,
    ],
    ['text', 'a@ops.example.com', /^channel\.to: must be an array/],
  ]
  for (const [what, to, sentence] of refused)
    test(`is refused if it is ${what}`, async () => {
      const body = { name: 'x', on: ['failed'], channel: { type: 'email', to } }
      const answer = await app.call('POST', '/api/alerts', { as: acme.admin, body })
      assert.equal(answer.status, 400, answer.text)
      assert.match(answer.body.detail, sentence)
    })
})

describe('the mail server', () => {
  const log = pino({ level: 'silent' })
  const mail = {
    id: 'x',
    incident_id: null,
    to: ['a@example.com'],
    message: { title: 'A', lines: ['b'], link: null, footer: 'c' },
  }
  const send = (SMTP_URL: string, signal = AbortSignal.timeout(60_000)) =>
    sendMail(
      { config: { SMTP_URL, SMTP_FROM: from, ALERT_EMAIL_DOMAINS: [], SIGNUP: 'open', FRONTEND_URL: 'http://x' }, log },
      mail,
      signal,
    )
  const tls = { key: serverKey, cert: serverCertificate }
  const FAILED = 'The mail server of this service did not take the message; its operator finds the cause in the log'

  test('gets no password without TLS', async () => {
    const plain = await startSmtpServer({ auth: true })
    const answer = await send(`smtp://relay-user:right%20password@127.0.0.1:${plain.port}`)
    assert.ok(!answer.arrived)
    assert.equal(answer.error, FAILED)
    assert.equal(answer.again, true)
    assert.equal(plain.count(), 0)
  })

  for (const atOnce of [false, true])
    test(`is not trusted with a certificate that nobody known signed, ${atOnce ? 'from the start' : 'after STARTTLS'}`, async () => {
      const strange = await startSmtpServer({ auth: true, tls: { ...tls, atOnce } })
      const answer = await send(`smtp${atOnce ? 's' : ''}://relay-user:right%20password@127.0.0.1:${strange.port}`)
      assert.ok(!answer.arrived)
      assert.match(answer.error, /^The certificate of the mail server is not trusted; /)
      assert.equal(strange.count(), 0)
    })

  test('that says nothing is given up when the service stops', async () => {
    const silent = await startSmtpServer({ silent: true })
    const stopping = new AbortController()
    const sending = send(`smtp://127.0.0.1:${silent.port}`, stopping.signal)
    setImmediate(() => stopping.abort())
    await assert.rejects(sending)
  })

  test('that nobody runs is told as the failure of the service, without its address', async () => {
    const answer = await send('smtp://127.0.0.1:1')
    assert.ok(!answer.arrived)
    assert.equal(answer.error, FAILED)
  })
})
