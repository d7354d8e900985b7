/** What is shown in a cluster. Each check returns its figures in one line, throws if it failed, or says why it cannot be made. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { CannotCheck, type Check, describe, distinct, seconds, startMany, whenUnderWay, workersOf } from './check.ts'
import { waitUntil } from './cluster.ts'
import { podChecks } from './pod-checks.ts'
import { standalone } from './standalone.ts'

const run = promisify(execFile)

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
    const settled = await platform.settle([load], 600)
    if (platform.podOf(after) === pod) throw new Error('the run stayed on the pod that was evicted')
    return `${describe(settled)}; the next attempt began ${resumed} after the eviction, at checkpoint ${before.checkpoint} or later`
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
    const settled = await platform.settle(loads, 900)
    if (settled.lost > 0) throw new Error(`${settled.lost} attempts were lost instead of handed over`)
    return `all pods replaced in ${took}; ${describe(settled)}`
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
    const settled = await platform.settle(loads, 900)
    const ended = performance.now()
    await waitUntil('one worker again', 600, async () => (await count()) === 1)
    return `4 workers ${up} after the first of ${loads.length} runs, 1 again ${seconds(ended)} after the last; ${describe(settled)}`
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
      const settled = await platform.settle(loads, 900)
      return `${node} killed; all runs had ended ${seconds(began)} later: ${describe(settled)}`
    } finally {
      if (restoreNode !== undefined) await run('sh', ['-c', restoreNode.replaceAll('{node}', node)])
    }
  },
}

export const checks: Check[] = [standalone, sandbox, inWorkers, ...podChecks, evicted, rolled, scaled, killed]
