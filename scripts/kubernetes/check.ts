/** What a check is, and what several of them need. */
import { type Cluster, type Pod, waitUntil } from './cluster.ts'
import type { Load, Platform, Run, Settled } from './platform.ts'

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

export interface Context {
  cluster: Cluster
  platform: Platform
  facts: Facts
  release: string
  /** Upgrades the release with further values. */
  upgrade(values: object): Promise<void>
  standaloneImage: string | undefined
  pullPolicy: string
  killNode: string | undefined
  restoreNode: string | undefined
}

export class CannotCheck extends Error {}

export interface Check {
  name: string
  /** Throws CannotCheck where the cluster lacks what it needs. */
  make(context: Context): Promise<string>
}

export const CLASS = 'small'
export const LOAD = { records: 2000, delayMs: 5 }

export const startMany = (platform: Platform, count: number, load: Parameters<Platform['load']>[0]): Promise<Load[]> =>
  Promise.all(Array.from({ length: count }, () => platform.load(load)))
const sum = (numbers: number[]) => numbers.reduce((total, each) => total + each, 0)
export const seconds = (since: number) => `${((performance.now() - since) / 1000).toFixed(0)} s`
export const distinct = (names: string[]) => new Set(names).size

export const workersOf = async (cluster: Cluster, component: string): Promise<Pod[]> =>
  (await cluster.pods()).filter((pod) => pod.component === component && !pod.going && pod.phase === 'Running')

/** Waits until the run has loaded something. */
export const whenUnderWay = (platform: Platform, load: Load): Promise<Run> =>
  waitUntil('a run under way', 180, async () => {
    const found = await platform.run(load.runId)
    return found.status === 'running' && found.checkpoint > 0 ? found : null
  })

export const describe = ({ runs, records, lost }: Settled): string =>
  `${records} records, ${runs.length} runs in ${sum(runs.map(({ attempt }) => attempt))} attempts, ${lost} of them lost`
