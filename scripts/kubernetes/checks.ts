/** What is shown in a cluster. Each check returns its figures in one line, throws if it failed, or says why it cannot be made. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { type Cluster, type Pod, waitUntil } from './cluster.ts'
import type { Load, Platform, Run } from './platform.ts'

const run = promisify(execFile)

export interface Facts {
  version: string
  /** Its objects are known. */
  keda: boolean
  /** And its operator acts on them. */
  operator: boolean
  /** Something serves external.metrics.k8s.io: an autoscaler can go beyond one pod. */
  externalMetrics: boolean
  nodes: string[]
}

interface Context {
  cluster: Cluster
  platform: Platform
  facts: Facts
  release: string
  /** Upgrades the release with further values. */
  upgrade(values: object): Promise<void>
  killNode: string | undefined
  restoreNode: string | undefined
}

export class CannotCheck extends Error {}

export interface Check {
  name: string
  /** Throws CannotCheck where the cluster lacks what it needs. */
  make(context: Context): Promise<string>
}

const CLASS = 'small'
const LOAD = { records: 2000, delayMs: 5 }

const startMany = (platform: Platform, count: number, load: Parameters<Platform['load']>[0]): Promise<Load[]> =>
  Promise.all(Array.from({ length: count }, () => platform.load(load)))
const sum = (numbers: number[]) => numbers.reduce((total, each) => total + each, 0)
const seconds = (since: number) => `${((performance.now() - since) / 1000).toFixed(0)} s`
const distinct = (names: string[]) => new Set(names).size

const workersOf = async (cluster: Cluster, component: string): Promise<Pod[]> =>
  (await cluster.pods()).filter((pod) => pod.component === component && !pod.going && pod.phase === 'Running')

/** Waits until the run has loaded something. */
const whenUnderWay = (platform: Platform, load: Load): Promise<Run> =>
  waitUntil('a run under way', 180, async () => {
    const found = await platform.run(load.runId)
    return found.status === 'running' && found.checkpoint > 0 ? found : null
  })

const describeAttempts = (runs: Run[]): string =>
  `${runs.length} runs in ${sum(runs.map(({ attempt }) => attempt))} attempts, ${sum(runs.map((each) => each.lost_attempts))} lost`

const sandbox: Check = {
  name: 'the sandbox works in a pod without any capability',
  async make({ platform }) {
    const answer = await waitUntil('an answer of the sandbox', 120, async () => {
      const state = await platform.sandbox()
      return state === 'not started' ? null : state
    })
    if (answer !== 'ok') throw new Error(`custom sources are disabled: ${answer}`)
    return 'non-root, read-only, no capability, default seccomp profile'
  },
}

const inWorkers: Check = {
  name: 'pipelines run in worker pods',
  async make({ cluster, platform }) {
    const began = performance.now()
    const loads = await startMany(platform, 8, { records: 10_000, delayMs: 0 })
    const { runs, records } = await platform.settle(loads, 300)
    const pods = runs.map(platform.podOf)
    const known = (await cluster.pods()).filter(({ component }) => component === 'worker').map(({ name }) => name)
    const strange = pods.find((name) => !known.includes(name))
    if (strange !== undefined) throw new Error(`a run was executed by ${strange}, which is no worker pod`)
    return `${runs.length} runs with ${records} records on ${distinct(pods)} pods in ${seconds(began)}`
  },
}

const inOwnPods: Check = {
  name: 'runs that ask for it have pods of their own, which come and go',
  async make({ cluster, platform, facts, release }) {
    if (!facts.keda) throw new CannotCheck('KEDA is not installed')
    const began = performance.now()
    const loads = await startMany(platform, 3, { ...LOAD, pod: CLASS })
    if (!facts.operator) for (const { table } of loads) await startJob(cluster, release, table)
    await waitUntil('a pod for a run', 180, async () => (await workersOf(cluster, 'run')).length > 0)
    const appeared = seconds(began)
    const { runs, records } = await platform.settle(loads, 600)
    const pods = runs.map(platform.podOf)
    if (distinct(pods) !== runs.length) throw new Error(`${runs.length} runs were executed by ${distinct(pods)} pods`)
    const ended = performance.now()
    await waitUntil('the end of these pods', 120, async () => (await workersOf(cluster, 'run')).length === 0)
    return `${runs.length} runs with ${records} records on ${distinct(pods)} pods; the first was there after ${appeared}, the last gone ${seconds(ended)} after its run`
  },
}

/** What the operator does for a waiting run. */
async function startJob(cluster: Cluster, release: string, name: string): Promise<void> {
  const scaled = JSON.parse(await cluster.kubectl('get', 'scaledjob', `${release}-${CLASS}`, '-o', 'json'))
  const job = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: name.replaceAll('_', '-') },
    spec: scaled.spec.jobTargetRef,
  }
  await cluster.apply(JSON.stringify(job), 'create')
}

const evicted: Check = {
  name: 'the run of an evicted pod resumes elsewhere',
  async make({ cluster, platform }) {
    const load = await platform.load({ records: 6000, delayMs: 10 })
    const before = await whenUnderWay(platform, load)
    const pod = platform.podOf(before)
    const began = performance.now()
    // The disruption budget may have to wait for another pod.
    await waitUntil('an eviction', 60, () => cluster.evict(pod).then(() => true))
    const after = await waitUntil('another attempt', 180, async () => {
      const found = await platform.run(load.runId)
      return found.attempt > before.attempt && found.status !== 'pending' ? found : null
    })
    const resumed = seconds(began)
    const { runs, records } = await platform.settle([load], 600)
    if (platform.podOf(after) === pod) throw new Error('the run stayed on the pod that was evicted')
    return `${records} records, ${describeAttempts(runs)}; the next attempt began ${resumed} after the eviction, at checkpoint ${before.checkpoint} or later`
  },
}

const rolled: Check = {
  name: 'a rolling upgrade under load finishes or hands over every run',
  async make({ platform, cluster, upgrade }) {
    const loads = await startMany(platform, 8, { records: 3000, delayMs: 10 })
    await whenUnderWay(platform, loads[0]!)
    const before = (await cluster.pods()).map(({ name }) => name)
    const began = performance.now()
    const marker = { podAnnotations: { upgraded: new Date().toISOString() } }
    await upgrade({ api: marker, worker: marker, scheduler: marker })
    const took = seconds(began)
    const left = (await workersOf(cluster, 'worker')).filter(({ name }) => before.includes(name))
    if (left.length > 0) throw new Error(`${left.length} workers were not replaced`)
    const { runs, records } = await platform.settle(loads, 900)
    const lost = sum(runs.map((each) => each.lost_attempts))
    if (lost > 0) throw new Error(`${lost} attempts were lost instead of handed over`)
    return `all pods replaced in ${took}; ${records} records, ${describeAttempts(runs)}`
  },
}

const scaled: Check = {
  name: 'workers scale from 1 to 4 with the queue, and back',
  async make({ cluster, platform, facts, upgrade }) {
    if (!facts.operator) throw new CannotCheck('KEDA does not run here')
    if (!facts.externalMetrics)
      throw new CannotCheck(
        "KEDA's metrics adapter is not registered (external.metrics.k8s.io), so nothing goes beyond one pod",
      )
    await upgrade({
      orgConcurrency: 16,
      worker: { replicas: 1, concurrency: 2, autoscaling: { by: 'keda', maxReplicas: 4, scaleDownSeconds: 20 } },
    })
    const count = async () => (await workersOf(cluster, 'worker')).filter(({ ready }) => ready).length
    await waitUntil('one worker', 300, async () => (await count()) === 1)
    const began = performance.now()
    const loads = await startMany(platform, 12, { records: 4000, delayMs: 10 })
    await waitUntil('four workers', 300, async () => (await count()) === 4)
    const up = seconds(began)
    const { runs, records } = await platform.settle(loads, 900)
    const ended = performance.now()
    await waitUntil('one worker again', 600, async () => (await count()) === 1)
    return `4 workers ${up} after the first of ${runs.length} runs, 1 again ${seconds(ended)} after the last; ${records} records, ${describeAttempts(runs)}`
  },
}

const killed: Check = {
  name: 'a node killed under load loses nothing and doubles nothing',
  async make({ cluster, platform, facts, killNode, restoreNode }) {
    if (killNode === undefined) throw new CannotCheck('--kill-node-command is not given')
    if (facts.nodes.length < 2) throw new CannotCheck('the cluster has only one node')
    const loads = await startMany(platform, 8, { records: 3000, delayMs: 10 })
    const under = await whenUnderWay(platform, loads[0]!)
    const node = (await cluster.pods()).find(({ name }) => name === platform.podOf(under))!.node
    const began = performance.now()
    await run('sh', ['-c', killNode.replaceAll('{node}', node)])
    try {
      const { runs, records } = await platform.settle(loads, 900)
      return `${node} killed; all runs had ended ${seconds(began)} later: ${records} records, ${describeAttempts(runs)}`
    } finally {
      if (restoreNode !== undefined) await run('sh', ['-c', restoreNode.replaceAll('{node}', node)])
    }
  },
}

export const checks: Check[] = [sandbox, inWorkers, inOwnPods, evicted, rolled, scaled, killed]
