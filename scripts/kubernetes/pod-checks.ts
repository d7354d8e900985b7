/** Runs with pods of their own: they come and go, and whatever happens to a pod, its run is neither lost nor doubled. */
import {
  CannotCheck,
  type Check,
  CLASS,
  type Context,
  describe,
  distinct,
  LOAD,
  seconds,
  startMany,
  whenUnderWay,
  workersOf,
} from './check.ts'
import { type Cluster, waitUntil } from './cluster.ts'
import type { Load } from './platform.ts'

const comeAndGo: Check = {
  name: 'runs that ask for it have pods of their own, which come and go',
  async make(context) {
    const { cluster, platform } = context
    const began = performance.now()
    const loads = await startInPods(context, 3, LOAD)
    await waitUntil('a pod for a run', 180, async () => (await workersOf(cluster, 'run')).length > 0)
    const appeared = seconds(began)
    const { runs, records } = await platform.settle(loads, 600)
    const pods = runs.map(platform.podOf)
    if (distinct(pods) !== runs.length) throw new Error(`${runs.length} runs were executed by ${distinct(pods)} pods`)
    const ended = performance.now()
    await noPodsLeft(cluster)
    return `${runs.length} runs with ${records} records on ${distinct(pods)} pods; the first was there after ${appeared}, the last gone ${seconds(ended)} after its run`
  },
}

/** All at once, as if the pod were out of memory; it can tell nobody. */
const killed: Check = {
  name: 'the run of a pod whose processes are killed is taken by another pod',
  make: (context) =>
    lose(context, (pod) => context.cluster.kubectl('exec', pod, '--', 'sh', '-c', 'kill -9 -1').catch(() => {})),
}

const evicted: Check = {
  name: 'the run of a pod of its own that is evicted is taken by another pod',
  make: (context) => lose(context, (pod) => context.cluster.evict(pod)),
}

async function lose(context: Context, end: (pod: string) => Promise<unknown>): Promise<string> {
  const { cluster, platform } = context
  const [load] = await startInPods(context, 1, { records: 6000, delayMs: 10 })
  const before = await whenUnderWay(platform, load!)
  const pod = platform.podOf(before)
  const began = performance.now()
  await end(pod)
  const resumed = await waitUntil('another attempt', 300, async () => {
    const found = await platform.run(load!.runId)
    if (found.status === 'pending' && !context.facts.operator) await startJob(context, `${load!.table}-again`)
    return found.attempt > before.attempt && found.status !== 'pending' ? seconds(began) : null
  })
  const settled = await platform.settle([load!], 600)
  if (platform.podOf(settled.runs[0]!) === pod) throw new Error('the run stayed on the pod that went')
  await noPodsLeft(cluster)
  return `${describe(settled)}; the next attempt began ${resumed} later`
}

const cancelled: Check = {
  name: 'a run that is cancelled while it waits for its pod leaves nothing behind',
  async make(context) {
    const { cluster, platform } = context
    const load = await platform.load({ ...LOAD, pod: CLASS })
    await platform.cancel(load.runId)
    const { status, attempt } = await platform.run(load.runId)
    if (status !== 'cancelled' || attempt !== 0) throw new Error(`it is ${status} after ${attempt} attempts`)
    await noPodsLeft(cluster)
    return 'never begun, and no pod is left'
  },
}

const idle: Check = {
  name: 'a pod for which nothing waits ends at once',
  async make(context) {
    const { cluster } = context
    const job = await startJob(context, 'nothing-waits')
    await cluster.kubectl('wait', '--for=condition=complete', `job/${job}`, '--timeout=120s')
    const [pod] = JSON.parse(await cluster.kubectl('get', 'pods', '-l', `job-name=${job}`, '-o', 'json')).items
    const { startedAt, finishedAt } = pod.status.containerStatuses[0].state.terminated
    await cluster.kubectl('delete', 'job', job)
    return `${(Date.parse(finishedAt) - Date.parse(startedAt)) / 1000} s from its start to its end`
  },
}

async function startInPods(context: Context, count: number, load: { records: number; delayMs: number }) {
  if (!context.facts.keda) throw new CannotCheck('KEDA is not installed')
  const loads: Load[] = await startMany(context.platform, count, { ...load, pod: CLASS })
  if (!context.facts.operator) for (const { table } of loads) await startJob(context, table)
  return loads
}

/** What the operator does for a waiting run. */
async function startJob({ cluster, release, facts }: Context, text: string): Promise<string> {
  if (!facts.keda) throw new CannotCheck('KEDA is not installed')
  const scaled = JSON.parse(await cluster.kubectl('get', 'scaledjob', `${release}-${CLASS}`, '-o', 'json'))
  const name = `${text.replaceAll('_', '-')}-${Date.now().toString(36)}`
  const job = { apiVersion: 'batch/v1', kind: 'Job', metadata: { name }, spec: scaled.spec.jobTargetRef }
  await cluster.apply(JSON.stringify(job), 'create')
  return name
}

const noPodsLeft = (cluster: Cluster): Promise<boolean> =>
  waitUntil('the end of the pods of runs', 180, async () => {
    const pods = await cluster.pods()
    return !pods.some(({ component, phase }) => component === 'run' && ['Pending', 'Running'].includes(phase))
  })

export const podChecks: Check[] = [comeAndGo, killed, evicted, cancelled, idle]
