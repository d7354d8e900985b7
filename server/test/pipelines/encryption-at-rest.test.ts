import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { readConfig } from '../../src/config/config.ts'
import { script } from '../../src/database/database.ts'
import { createApp } from '../../src/http/app.ts'
import { createServices } from '../../src/services.ts'

const SECRET = 'Zebra-secret-4f1c9a7e2b'
const VISIBLE = 'Walrus-name-8d3b6c0a5f'

test('neither the database files nor the write-ahead log contain a secret that was used', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-at-rest-'))
  try {
    await useSecrets(folder)
    const files = allFiles(folder)
    assert.ok(files.some((file) => file.includes('pg_wal')))
    const bytes = Buffer.from(SECRET)
    const hidden = [SECRET, bytes.toString('base64').slice(0, -4), bytes.toString('hex')].map((form) =>
      Buffer.from(form),
    )
    const seen: string[] = []
    for (const file of files) {
      const content = readFileSync(file)
      assert.equal(
        hidden.some((form) => content.includes(form)),
        false,
        path.relative(folder, file),
      )
      if (content.includes(VISIBLE)) seen.push(path.relative(folder, file))
    }
    assert.ok(
      seen.some((file) => file.includes('pg_wal')) && seen.some((file) => file.includes('base')),
      'what is no secret is found in both',
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

async function useSecrets(folder: string): Promise<void> {
  const services = await createServices(readConfig({ DATA_DIR: folder, LOG_LEVEL: 'silent' }))
  const app = await createApp(services)
  try {
    let token = ''
    const call = async (method: 'POST' | 'PUT' | 'GET', url: string, body?: object) => {
      const headers = token === '' ? {} : { authorization: `Bearer ${token}` }
      const answer = await app.inject({ method, url, headers, ...(body && { payload: body }) })
      assert.ok(answer.statusCode < 300, `${method} ${url}: ${answer.body}`)
      return answer.json()
    }
    const person = { email: 'a@example.com', password: 'Correct-horse-1', name: 'A', organization_name: 'A' }
    token = (await call('POST', '/api/auth/register', person)).access_token
    const authentication = { type: 'api_key', params: { token: SECRET } }
    const saved = await call('POST', '/api/saved/sources', {
      name: VISIBLE,
      connector_name: 'dummy',
      config: { authentication },
    })
    await call('PUT', `/api/saved/sources/${saved.id}`, { config: { authentication, config: { records: 1 } } })
    const destination = { name: 'file' }
    const inline = { source: { name: 'dummy', stream: 'plants', authentication }, destination }
    const pipeline = await call('POST', '/api/pipelines', { name: VISIBLE, config: inline })
    await call('PUT', `/api/pipelines/${pipeline.id}`, { config: inline })
    await call('POST', `/api/pipelines/${pipeline.id}/copy`)
    const byReference = { source: { saved_connector_id: saved.id, stream: 'plants' }, destination }
    const other = await call('POST', '/api/pipelines', { name: VISIBLE, config: byReference })
    for (const { id } of [pipeline, other]) await call('POST', `/api/pipelines/${id}/run`)
    await call('GET', `/api/pipelines/${pipeline.id}`)
    await services.db.execute(script('CHECKPOINT'))
  } finally {
    await app.close()
    await services.close()
  }
}

function allFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
}
