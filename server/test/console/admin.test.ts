/** An admin's way in a real browser: invite, accept in another browser, a role in a domain, and the audit log of it all. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { BrowserContext, Page } from 'playwright-core'
import { openShared, skipWithoutChromium } from '../harness/browser.ts'
import { makeDataDir, root, type Service, startService } from '../harness/service.ts'

const built = existsSync(path.join(root, 'web/dist')) ? false : 'the console is not built'
const PASSWORD = 'Correct-horse-1'
const OWNER = 'ada@example.com'
/** Each would run a script, or at least change the page, where it is not treated as text. */
const ORGANIZATION = 'Acme <img src=x onerror=alert(1)>'
const DOMAIN = 'Finance <script>alert(2)</script>'
const GUEST = 'Vera <b onmouseover=alert(3)>Rubin</b>'

describe('an admin', { skip: skipWithoutChromium || built }, () => {
  const folder = makeDataDir()
  const problems: string[] = []
  let service: Service
  let browser: Awaited<ReturnType<typeof openShared>>
  let context: BrowserContext
  let page: Page

  before(async () => {
    ;[service, browser] = await Promise.all([startService(folder), openShared()])
    await call('POST', '/api/auth/register', {
      body: { email: OWNER, password: PASSWORD, name: 'Ada', organization_name: ORGANIZATION },
    })
    context = await browser.newPerson()
    page = await newPage(context)
    await page.goto(`${service.url}/people`)
    await page.getByLabel('Email').fill(OWNER)
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'People' }).waitFor()
  })

  after(async () => {
    await browser?.close()
    service?.child.kill('SIGTERM')
    await service?.ended
    rmSync(folder, { recursive: true, force: true })
  })

  it('invites somebody, gives them a role in a domain, revokes it, and finds it all in the audit log', async () => {
    await createDomain(page)
    const link = await invite(page)
    const guest = await newPage(await browser.newPerson())
    await accept(guest, link)
    await seeNothingForAdmins(guest)
    await guest.context().close()
    await giveAndRevoke(page)
    await readAudit(page)
    await demoteAndRemove(page)
    assert.deepEqual(problems, [])
  })

  it('creates a key whose curl line works, and revokes it', async () => {
    await page.goto(`${service.url}/settings/api-keys`)
    await page.getByRole('button', { name: 'Create a key' }).first().click()
    await page.getByLabel('Name').fill('CI <u>')
    await page.getByLabel('Only what is ticked below').check()
    await page.getByLabel('See domains').check()
    await page.getByRole('button', { name: 'Create key' }).click()
    const line = await page.getByRole('figure').filter({ hasText: 'Try it' }).getByRole('code').innerText()
    const answer = await runCurl(line)
    assert.equal(answer.status, 200)
    assert.equal(((await answer.json()) as { name: string }[])[0]!.name, DOMAIN)
    await page.getByRole('button', { name: 'I have copied the key' }).click()
    await page.getByRole('button', { name: 'Revoke CI <u>' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke the key' }).click()
    await page.getByText('No API key yet').waitFor()
    assert.equal((await runCurl(line)).status, 401)
    assert.deepEqual(problems, [])
  })

  it('loses nothing that was typed when the session ends', async () => {
    await page.goto(`${service.url}/connections/new?kind=destination&connector=webhook`)
    await page.getByLabel('Name', { exact: true }).fill('Typed before the end')
    await page.getByLabel('URL').fill('https://example.com/hook')
    await endAllSessions()
    await page.getByRole('button', { name: 'Save connection' }).click()
    const dialog = page.getByRole('dialog', { name: 'Your session has ended' })
    await dialog.getByLabel('Password').fill(PASSWORD)
    await dialog.getByRole('button', { name: 'Sign in' }).click()
    // The save that was waiting goes on by itself.
    await page.getByRole('heading', { name: 'Typed before the end' }).waitFor()
    // The browser writes each refused request to its console.
    assert.deepEqual(
      problems.splice(0).filter((problem) => !/\b401\b/.test(problem)),
      [],
    )
  })

  it('keeps a tab in its organization when another tab opens another one', async () => {
    await joinAnotherOrganization()
    await page.goto(`${service.url}/settings/organization`)
    const other = await newPage(context)
    await other.goto(service.url)
    await other.getByRole('button', { name: ORGANIZATION }).click()
    await other.getByRole('button', { name: /Beta/ }).click()
    const dialog = page.getByRole('dialog', { name: 'You opened another organization in another tab' })
    await dialog.getByRole('button', { name: /^Stay in Acme/ }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByLabel('Name').fill('Acme')
    await page.getByRole('button', { name: 'Rename' }).click()
    await page.getByRole('button', { name: 'Acme', exact: true }).waitFor()
    // The other tab is asked in its turn; signing out there reaches this one.
    await other.getByRole('dialog').getByRole('button', { name: 'Go to the other one' }).click()
    await other.getByRole('button', { name: 'Ada', exact: true }).click()
    await other.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    assert.deepEqual(problems, [])
  })

  async function newPage(person: BrowserContext): Promise<Page> {
    const opened = await person.newPage()
    opened.setDefaultTimeout(60_000)
    opened.on('pageerror', (error) => problems.push(error.message))
    opened.on('console', (message) => message.type() === 'error' && problems.push(message.text()))
    opened.on('dialog', (dialog) => {
      problems.push(`a script ran: ${dialog.message()}`)
      void dialog.dismiss()
    })
    return opened
  }

  async function call<T>(method: string, address: string, sent: { token?: string; body?: object } = {}): Promise<T> {
    const { token, body } = sent
    const response = await fetch(service.url + address, {
      method,
      headers: {
        ...(body && { 'content-type': 'application/json' }),
        ...(token && { authorization: `Bearer ${token}` }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    assert.ok(response.ok, `${method} ${address}: ${response.status}`)
    return (response.status === 204 ? null : await response.json()) as T
  }

  const signIn = () =>
    call<{ access_token: string }>('POST', '/api/auth/login', { body: { email: OWNER, password: PASSWORD } })

  async function endAllSessions(): Promise<void> {
    const { access_token: token } = await signIn()
    const sessions = await call<{ id: string; current: boolean }[]>('GET', '/api/auth/sessions', { token })
    for (const { id } of sessions.filter(({ current }) => !current))
      await call('DELETE', `/api/auth/sessions/${id}`, { token })
  }

  async function joinAnotherOrganization(): Promise<void> {
    const account = { email: 'bob@example.com', password: PASSWORD, name: 'Bob', organization_name: 'Beta' }
    const { access_token } = await call<{ access_token: string }>('POST', '/api/auth/register', { body: account })
    const body = { email: OWNER, role: 'member' }
    const { invite_url } = await call<{ invite_url: string }>('POST', '/api/users/invite', {
      token: access_token,
      body,
    })
    const token = new URL(invite_url).searchParams.get('token')
    await call('POST', '/api/users/invitations/accept', { token: (await signIn()).access_token, body: { token } })
  }
})

async function createDomain(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Settings', exact: true }).click()
  await page.getByRole('link', { name: 'Domains' }).click()
  await page.getByRole('button', { name: 'Create a domain' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill(DOMAIN)
  await dialog.getByRole('button', { name: 'teal' }).click()
  await dialog.getByRole('button', { name: 'Create domain' }).click()
  await page.getByRole('cell', { name: DOMAIN, exact: true }).waitFor()
}

async function invite(page: Page): Promise<string> {
  await page.getByRole('link', { name: 'People' }).click()
  await page.getByRole('link', { name: 'Invitations' }).click()
  await page.getByLabel('Email').fill('vera@example.com')
  await page.getByLabel('Role').selectOption('viewer')
  await page.getByRole('button', { name: 'Create an invitation' }).click()
  const link = await page.getByRole('figure').getByRole('code').innerText()
  await page.getByRole('cell', { name: 'vera@example.com', exact: true }).waitFor()
  return link
}

async function accept(guest: Page, link: string): Promise<void> {
  await guest.goto(link)
  await guest.getByRole('heading', { name: `Join ${ORGANIZATION}` }).waitFor()
  await guest.getByLabel('Your name').fill(GUEST)
  await guest.getByLabel('Password').fill(PASSWORD)
  await guest.getByRole('button', { name: 'Create account and join' }).click()
  await guest.getByRole('link', { name: 'Settings', exact: true }).waitFor()
}

/** A viewer is told why a page is not for them, and is not offered what they may not do. */
async function seeNothingForAdmins(guest: Page): Promise<void> {
  await guest.getByRole('link', { name: 'Settings', exact: true }).click()
  await guest.getByRole('link', { name: 'Audit' }).click()
  await guest.getByRole('heading', { name: 'The audit log is for admins' }).waitFor()
  await guest.getByText(`Your role in ${ORGANIZATION} is viewer.`).waitFor()
  await guest.getByRole('link', { name: 'Webhooks' }).click()
  await guest.getByRole('heading', { name: 'Managing webhooks is for admins' }).waitFor()
  await guest.getByRole('link', { name: 'Domains' }).click()
  await guest.getByRole('cell', { name: DOMAIN, exact: true }).waitFor()
  assert.equal(await guest.getByRole('button', { name: 'Create a domain' }).count(), 0)
  await guest.getByRole('link', { name: 'People' }).click()
  await guest.getByRole('link', { name: GUEST }).waitFor()
  assert.equal(await guest.getByRole('button', { name: /^Actions for/ }).count(), 0)
}

async function giveAndRevoke(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'People' }).click()
  await page.getByRole('link', { name: GUEST }).click()
  await page.getByRole('button', { name: 'Give the role' }).click()
  await page.getByText(`Run and cancel pipelines · only in ${DOMAIN}`).waitFor()
  await page.getByRole('button', { name: `Revoke the role in ${DOMAIN}` }).click()
  await page.getByText('None.').waitFor()
  assert.equal(await page.getByText(`only in ${DOMAIN}`).count(), 0)
}

async function readAudit(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Settings', exact: true }).click()
  await page.getByRole('link', { name: 'Audit' }).click()
  for (const sentence of [
    `Ada created the domain “${DOMAIN}”`,
    'Ada invited vera@example.com as viewer',
    `${GUEST} accepted the invitation`,
    `Ada gave ${GUEST} the role member in “${DOMAIN}”`,
    `Ada revoked the role member of ${GUEST} in ${DOMAIN}`,
  ])
    await page.locator('summary').filter({ hasText: sentence }).waitFor()
  await page.getByLabel('Action').selectOption('invitation.created')
  await page.waitForURL(/action=invitation\.created/)
  await page.getByText('Ada revoked').waitFor({ state: 'detached' })
  await page.getByText('Ada invited').waitFor()
  assert.equal(await page.locator('summary').count(), 1)
  const waiting = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download as CSV' }).click()
  const [head, ...lines] = readFileSync(await (await waiting).path(), 'utf8')
    .trimEnd()
    .split('\n')
  assert.match(head!, /^"id","at","actor_id"/)
  assert.equal(lines.length, 1)
}

async function demoteAndRemove(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'People' }).click()
  await page.getByRole('button', { name: `Actions for ${GUEST}` }).click()
  await page.getByRole('menuitem', { name: 'Make member' }).click()
  await page.getByRole('row').filter({ hasText: GUEST }).getByRole('cell', { name: 'member', exact: true }).waitFor()
  await page.getByRole('button', { name: `Actions for ${GUEST}` }).click()
  await page.getByRole('menuitem', { name: 'Remove…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove from the organization' }).click()
  await page.getByRole('link', { name: GUEST }).waitFor({ state: 'detached' })
}

/** The request of a curl line, with its words as a shell would split them. */
async function runCurl(line: string): Promise<Response> {
  const words = execFileSync('sh', ['-c', `printf '%s\\n' ${line}`], { encoding: 'utf8' })
    .trimEnd()
    .split('\n')
  const [program, option, header, address, ...rest] = words
  assert.deepEqual([program, option, rest], ['curl', '-H', []])
  const colon = header!.indexOf(': ')
  return fetch(address!, { headers: { [header!.slice(0, colon)]: header!.slice(colon + 2) } })
}
