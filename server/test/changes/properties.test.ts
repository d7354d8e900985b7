/** The guarantees of plan, apply and export, tried with generated organizations. FUZZ_SEED and FUZZ_RUNS make others and more. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { referencesIn, resolveText } from '../../src/changes/references.ts'
import { sql } from '../../src/database/database.ts'
import { type Person, startApp } from '../harness/app.ts'
import { addOrganization } from '../tenancy/world.ts'
import { type Objects, organization } from './organizations.ts'
import { checkFiles } from './schema-check.ts'

const app = await startApp()
const seed = Number(process.env.FUZZ_SEED ?? 20_260_101)
const numRuns = Number(process.env.FUZZ_RUNS ?? 25)
const SETTINGS = { seed, numRuns, endOnFailure: false }

const plan = async (as: Person, objects: object, more: object = {}) => {
  const answer = await app.call('POST', '/api/changes', { as, body: { objects, dry_run: true, ...more } })
  assert.equal(answer.status, 200, answer.text)
  return answer.body
}
const apply = async (as: Person, objects: object, more: object = {}) => {
  const answer = await app.call('POST', '/api/changes', { as, body: { objects, ...more } })
  assert.equal(answer.status, 200, answer.text)
  return answer.body
}
const exportOf = async (as: Person) => {
  const answer = await app.call('GET', '/api/changes/export', { as })
  assert.equal(answer.status, 200, answer.text)
  return answer.body.objects as Objects
}

/** What a client does: references are replaced by values, which are found where the original has them. */
function resolve(exported: unknown, original: unknown): unknown {
  if (typeof exported === 'string')
    return referencesIn(exported).length > 0 ? original : resolveText(exported, () => '')
  if (Array.isArray(exported)) return exported.map((item, index) => resolve(item, (original as unknown[])?.[index]))
  if (typeof exported !== 'object' || exported === null) return exported
  return Object.fromEntries(
    Object.entries(exported).map(([name, value]) => [
      name,
      resolve(value, (original as Record<string, unknown>)?.[name]),
    ]),
  )
}

function resolveAll(exported: Objects, original: Objects): Objects {
  const resolveOne = (kind: keyof Objects) => (object: Record<string, unknown>) => {
    const { config } = original[kind].find((each) => each.name === object.name && each.type === object.type) ?? {}
    return object.config === undefined ? object : { ...object, config: resolve(object.config, config) }
  }
  return {
    ...exported,
    connections: exported.connections.map(resolveOne('connections')),
    pipelines: exported.pipelines.map(resolveOne('pipelines')),
  }
}

const rowsOf = (as: Person) =>
  app.services.db.query(sql`
    SELECT 'p' AS kind, id, name, updated_at, encode(config_box, 'hex') AS box FROM pipelines WHERE organization_id = ${as.organization_id}
    UNION ALL SELECT 'c', id, name, updated_at, encode(config_box, 'hex') FROM saved_connectors WHERE organization_id = ${as.organization_id}
    UNION ALL SELECT 'd', id, name, updated_at, coalesce(description, '') || coalesce(color, '') FROM domains WHERE organization_id = ${as.organization_id}
    UNION ALL SELECT 'a', NULL, action, NULL, NULL FROM audit_log WHERE organization_id = ${as.organization_id} ORDER BY 1, 2, 3`)

test('export, apply into an empty organization, export again: the same', async () => {
  await fc.assert(
    fc.asyncProperty(organization, async (objects) => {
      const [first, second] = [await addOrganization(app), await addOrganization(app)]
      await apply(first, objects)
      const exported = await exportOf(first)
      checkFiles(exported)
      await apply(second, resolveAll(exported, objects))
      assert.deepEqual(await exportOf(second), exported)
      assert.equal(JSON.stringify(await exportOf(second)), JSON.stringify(exported))
    }),
    SETTINGS,
  )
})

test('a plan changes nothing, applying does what it said, and afterwards there is nothing to do', async () => {
  await fc.assert(
    fc.asyncProperty(organization, organization, fc.boolean(), async (before, after, prune) => {
      const owner = await addOrganization(app)
      await apply(owner, before)
      const rows = await rowsOf(owner)
      const planned = await plan(owner, after, { prune })
      assert.deepEqual(await rowsOf(owner), rows, 'the plan changed something')
      if (planned.problems.length > 0) {
        // Without prune a pipeline may stay in the way of nothing, so this is only a domain or connection in use.
        const refused = await app.call('POST', '/api/changes', {
          as: owner,
          body: { objects: after, prune, base: planned.base },
        })
        assert.ok(refused.status === 400 || refused.status === 403, refused.text)
        assert.deepEqual(await rowsOf(owner), rows, 'a refused change left something')
        return
      }
      const applied = await apply(owner, after, { prune, base: planned.base })
      assert.deepEqual(applied.changes, planned.changes)
      const again = await plan(owner, after, { prune })
      assert.deepEqual(again.changes, [])
      assert.deepEqual(again.problems, [])
      const changed = await rowsOf(owner)
      assert.deepEqual(countActions(changed) - countActions(rows), planned.changes.reduce(countEntries, 0))
      const counts = await exportOf(owner)
      if (prune)
        for (const kind of ['domains', 'connections', 'pipelines'] as const)
          assert.equal(counts[kind].length, after[kind].length, kind)
    }),
    SETTINGS,
  )
})

const countActions = (rows: unknown[]): number => rows.filter((row) => (row as { kind: string }).kind === 'a').length
/** One audit entry for each change, two for a replacement. */
const countEntries = (sum: number, { action }: { action: string }): number => sum + (action === 'replace' ? 2 : 1)

test('no secret is in a plan, an export or the audit log', async () => {
  await fc.assert(
    fc.asyncProperty(organization, organization, async (before, after) => {
      const owner = await addOrganization(app)
      const mark = `s3cr3t-${randomUUID()}`
      const [marked, other] = [hide(before, mark), hide(after, `${mark}-new`)]
      await apply(owner, marked)
      const planned = await plan(owner, other, { prune: true })
      const exported = await exportOf(owner)
      const audited = await app.services.db.query(
        sql`SELECT * FROM audit_log WHERE organization_id = ${owner.organization_id}`,
      )
      for (const text of [planned, exported, audited]) assert.ok(!JSON.stringify(text).includes(mark))
    }),
    { ...SETTINGS, numRuns: Math.ceil(numRuns / 2) },
  )
})

/** With a text in every secret that can be searched for. */
const hide = (objects: Objects, mark: string): Objects =>
  JSON.parse(JSON.stringify(objects), (name, value) => (name === 'password' || name === 'token' ? mark : value))

test('of concurrent applies of the same plan exactly one wins', async () => {
  await fc.assert(
    fc.asyncProperty(organization, fc.array(organization, { minLength: 2, maxLength: 4 }), async (before, edits) => {
      const owner = await addOrganization(app)
      await apply(owner, before)
      const plans = await Promise.all(edits.map((objects) => plan(owner, objects, { prune: true })))
      const viable = edits
        .map((objects, index) => ({ objects, plan: plans[index] }))
        .filter(({ plan: each }) => each.problems.length === 0 && each.changes.length > 0)
      if (viable.length < 2) return
      const answers = await Promise.all(
        viable.map(({ objects, plan: each }) =>
          app.call('POST', '/api/changes', { as: owner, body: { objects, prune: true, base: each.base } }),
        ),
      )
      const winners = viable.filter((_, index) => answers[index]!.status === 200)
      assert.equal(winners.length, 1, answers.map(({ text }) => text).join('\n'))
      assert.ok(answers.every(({ status }) => status === 200 || status === 409))
      assert.deepEqual((await plan(owner, winners[0]!.objects, { prune: true })).changes, [])
    }),
    { ...SETTINGS, numRuns: Math.ceil(numRuns / 2) },
  )
})
