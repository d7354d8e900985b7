/** The cluster, by way of kubectl and helm. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface Pod {
  name: string
  node: string
  component: string
  phase: string
  ready: boolean
  going: boolean
}

export interface Cluster {
  namespace: string
  kubectl(...args: string[]): Promise<string>
  /** With something on standard input. */
  apply(text: string, ...args: string[]): Promise<string>
  helm(...args: string[]): Promise<string>
  has(...args: string[]): Promise<boolean>
  pods(): Promise<Pod[]>
  evict(pod: string): Promise<void>
  /** An address of this machine that leads to the service, for as long as the test runs. */
  forward(service: string): Promise<{ url: string; close(): void }>
}

export function openCluster(options: {
  kubeconfig: string
  namespace: string
  kubectl: string
  helm: string
}): Cluster {
  const { namespace } = options
  const env = { ...process.env, KUBECONFIG: options.kubeconfig }
  const call = async (command: string, args: string[]) =>
    (await run(command, args, { env, maxBuffer: 64 * 1024 * 1024, timeout: 15 * 60_000 })).stdout
  const kubectl = (...args: string[]) => call(options.kubectl, ['-n', namespace, ...args])
  const apply = async (text: string, ...args: string[]) => {
    const child = spawn(options.kubectl, ['-n', namespace, ...args, '-f', '-'], { env })
    let [out, problem] = ['', '']
    child.stdout.on('data', (data) => (out += data))
    child.stderr.on('data', (data) => (problem += data))
    child.stdin.end(text)
    const [code] = await once(child, 'close')
    if (code !== 0) throw new Error(problem)
    return out
  }
  return {
    namespace,
    kubectl,
    apply,
    helm: (...args) => call(options.helm, ['-n', namespace, ...args]),
    has: (...args) => kubectl(...args).then(Boolean, () => false),
    async pods() {
      const list = JSON.parse(await kubectl('get', 'pods', '-o', 'json')) as { items: RawPod[] }
      return list.items.map(({ metadata, spec, status }) => ({
        name: metadata.name,
        node: spec.nodeName ?? '',
        component: metadata.labels?.['app.kubernetes.io/component'] ?? '',
        phase: status.phase,
        ready: status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false,
        going: metadata.deletionTimestamp !== undefined,
      }))
    },
    async evict(pod) {
      const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: pod, namespace } }
      await apply(JSON.stringify(eviction), 'create', '--raw', `/api/v1/namespaces/${namespace}/pods/${pod}/eviction`)
    },
    forward: (service) => forwardPort(options.kubectl, ['-n', namespace, 'port-forward', service], env),
  }
}

interface RawPod {
  metadata: { name: string; labels?: Record<string, string>; deletionTimestamp?: string }
  spec: { nodeName?: string }
  status: { phase: string; conditions?: { type: string; status: string }[] }
}

/** kubectl forwards to one pod and ends with it, so it is started again. */
async function forwardPort(kubectl: string, args: string[], env: NodeJS.ProcessEnv) {
  let closed = false
  let port = 0
  let child: ReturnType<typeof spawn>
  const begin = () =>
    new Promise<void>((resolve) => {
      child = spawn(kubectl, [...args, `${port === 0 ? '' : port}:http`], { env, stdio: ['ignore', 'pipe', 'ignore'] })
      child.stdout!.on('data', (text) => {
        port ||= Number(/127\.0\.0\.1:(\d+)/.exec(String(text))?.[1] ?? 0)
        if (port !== 0) resolve()
      })
      child.on('close', async () => {
        await delay(500)
        if (!closed) await begin()
        resolve()
      })
    })
  await begin()
  return {
    url: `http://127.0.0.1:${port}`,
    close() {
      closed = true
      child.kill()
    },
  }
}

export async function waitUntil<T>(
  what: string,
  seconds: number,
  look: () => Promise<T | null | undefined | false>,
): Promise<T> {
  const until = Date.now() + seconds * 1000
  let problem: unknown
  for (;;) {
    try {
      const found = await look()
      if (found) return found
      problem = undefined
    } catch (error) {
      problem = error
    }
    if (Date.now() > until)
      throw new Error(`${what}: not within ${seconds} s${problem ? ` (${String((problem as Error).message)})` : ''}`)
    await delay(500)
  }
}
