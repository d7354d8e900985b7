/**
 * `npm run test:kubernetes -- --kubeconfig FILE`: installs the chart into a cluster and shows what is promised of it, with
 * figures. What the cluster does not offer is one line. Not part of `npm test`.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { CannotCheck, type Facts } from './kubernetes/check.ts'
import { checks } from './kubernetes/checks.ts'
import { type Cluster, openCluster, waitUntil } from './kubernetes/cluster.ts'
import { signUp } from './kubernetes/platform.ts'
import { openStores, type Stores } from './kubernetes/stores.ts'

const HELP = `npm run test:kubernetes -- --kubeconfig FILE [options]

  --image NAME:TAG             the image, which the nodes have or can pull (default sluice:latest)
  --standalone-image NAME:TAG  the image with the embedded PostgreSQL, for a pod of \`sluice start\`
  --pull-policy POLICY         IfNotPresent, or Never for an image that only the nodes have
  --namespace NAME             made for the test and removed after it (default sluice-test)
  --address ADDRESS            an address of this machine that pods reach: PostgreSQL and S3 servers are started here.
                               Without it they are given in the environment: TEST_DATABASE_URL, TEST_LEDGER_URL (another
                               server), TEST_S3_ENDPOINT, TEST_S3_BUCKET, TEST_S3_ACCESS_KEY_ID, TEST_S3_SECRET_ACCESS_KEY,
                               TEST_S3_REGION
  --kill-node-command COMMAND  kills a node as a power cut would; {node} is its name
  --restore-node-command COMMAND
  --only WORDS                 only checks whose name contains this
  --keep                       leave the release in the cluster
  --kubectl, --helm PROGRAM    where they are not on the PATH`

const { values: options } = parseArgs({
  options: {
    kubeconfig: { type: 'string' },
    image: { type: 'string', default: 'sluice:latest' },
    'standalone-image': { type: 'string' },
    'pull-policy': { type: 'string', default: 'IfNotPresent' },
    namespace: { type: 'string', default: 'sluice-test' },
    address: { type: 'string' },
    'kill-node-command': { type: 'string' },
    'restore-node-command': { type: 'string' },
    only: { type: 'string', default: '' },
    keep: { type: 'boolean', default: false },
    kubectl: { type: 'string', default: 'kubectl' },
    helm: { type: 'string', default: 'helm' },
    help: { type: 'boolean', short: 'h', default: false },
  },
})
if (options.help || options.kubeconfig === undefined) {
  console.log(HELP)
  process.exit(options.help ? 0 : 2)
}

const RELEASE = 'sluice'
const METRICS_TOKEN = 'only-for-this-test'
const chart = path.resolve(import.meta.dirname, '../deploy/helm/sluice')
const cluster = openCluster({ ...options, kubeconfig: options.kubeconfig })
const say = (state: string, text: string) => console.log(`${state.padEnd(8)}${text}`)

const facts = await lookAround(cluster)
const folder = await mkdtemp(path.join(tmpdir(), 'sluice-kubernetes-'))
const stores = await openStores(options.address)
let failed = 0
try {
  const values = valuesFor(stores, facts)
  const file = path.join(folder, 'values.json')
  await writeFile(file, JSON.stringify(values), { mode: 0o600 })
  await checkChart(file)
  await cluster.has('create', 'namespace', options.namespace)
  const began = performance.now()
  await cluster.helm('install', RELEASE, chart, '-f', file, '--timeout', '10m')
  await cluster.kubectl('rollout', 'status', `deployment/${RELEASE}-api`, '--timeout', '10m')
  await stores.makeScaler()
  for (const role of ['worker', 'scheduler'])
    await cluster.kubectl('rollout', 'status', `deployment/${RELEASE}-${role}`, '--timeout', '10m')
  say('ok', `installed and ready in ${((performance.now() - began) / 1000).toFixed(0)} s`)
  await checkAll(file)
} finally {
  if (!options.keep) await remove()
  await stores.close()
  await rm(folder, { recursive: true, force: true })
}
process.exit(failed === 0 ? 0 : 1)

async function lookAround({ kubectl, has }: Cluster): Promise<Facts> {
  const version = JSON.parse(await kubectl('version', '-o', 'json')).serverVersion.gitVersion
  const nodes = (await kubectl('get', 'nodes', '-o', 'name')).trim().split('\n')
  const keda = await has('get', 'crd', 'scaledjobs.keda.sh')
  const externalMetrics = await has('get', '--raw', '/apis/external.metrics.k8s.io/v1beta1')
  say('info', `Kubernetes ${version}, ${nodes.length} nodes, KEDA ${keda ? 'is there' : 'is not installed'}`)
  if (!(await has('get', '--raw', '/apis/metrics.k8s.io/v1beta1')))
    say('skipped', 'scaling by CPU (hpa): there is no metrics-server; the objects are only checked by a dry run')
  if (!(await has('-n', 'kube-system', 'get', 'service', 'kube-dns')))
    say('skipped', 'names of services: there is no DNS in the cluster; the test uses addresses')
  say('skipped', 'whether the network enforces the NetworkPolicy: the objects are only applied')
  return { version, keda, operator: false, externalMetrics, nodes }
}

function valuesFor({ databaseUrl, scalerUrl, settings, s3Keys, ledgerHost }: Stores, { keda }: Facts) {
  const colon = options.image.lastIndexOf(':')
  const small = { cpu: '200m', memory: '128Mi' }
  const resources = { requests: small }
  return {
    image: {
      repository: options.image.slice(0, colon),
      tag: options.image.slice(colon + 1),
      pullPolicy: options['pull-policy'],
    },
    publicUrl: 'http://sluice.example.com',
    settings: { ...settings, EGRESS_ALLOW: ledgerHost, RUN_CHECKPOINT_MS: '1000' },
    secret: {
      databaseUrl,
      encryptionKey: 'only-for-this-test-only-for-this-test',
      jwtSecretKey: 'only-for-this-test-only-for-this-test',
      metricsToken: METRICS_TOKEN,
      ...s3Keys,
    },
    drainSeconds: 5,
    orgConcurrency: 16,
    api: { replicas: 2, resources },
    worker: { replicas: 2, resources },
    scheduler: { replicas: 2, resources },
    migrations: { resources },
    ...(keda && {
      podClasses: { small: { maxReplicas: 4, resources } },
      keda: { databaseUrl: scalerUrl, pollingSeconds: 3 },
    }),
  }
}

/** Every object that the chart can make, checked by the API server. Objects of operators that are not there cannot be. */
async function checkChart(file: string): Promise<void> {
  const lint = await cluster.helm('lint', '--strict', chart, '-f', file)
  const everything = path.join(folder, 'everything.json')
  const monitor = await cluster.has('get', 'crd', 'servicemonitors.monitoring.coreos.com')
  await writeFile(
    everything,
    JSON.stringify({
      ingress: { enabled: true, host: 'sluice.example.com', tlsSecret: 'tls', className: 'nginx' },
      api: { autoscaling: { enabled: true } },
      worker: { autoscaling: { by: facts.keda ? 'keda' : 'hpa' } },
      serviceMonitor: { enabled: monitor },
      grafanaDashboard: { enabled: true },
    }),
  )
  const text = await cluster.helm(
    'template',
    RELEASE,
    chart,
    '--kube-version',
    facts.version,
    '-f',
    file,
    '-f',
    everything,
  )
  await cluster.has('create', 'namespace', options.namespace)
  const applied = await cluster.apply(text, 'apply', '--dry-run=server')
  say('ok', `helm lint: ${/\d+ chart\(s\) linted, \d+ chart\(s\) failed/.exec(lint)?.[0]}`)
  say('ok', `the API server accepts all ${applied.trim().split('\n').length} objects of the chart`)
  if (!monitor) say('skipped', 'the ServiceMonitor: the Prometheus operator is not installed')
}

async function checkAll(file: string): Promise<void> {
  const forward = await cluster.forward(`service/${RELEASE}`)
  let further = 0
  const files = [file]
  const upgrade = async (values: object) => {
    const more = path.join(folder, `more-${++further}.json`)
    await writeFile(more, JSON.stringify(values))
    files.push(more)
    await cluster.helm('upgrade', RELEASE, chart, ...files.flatMap((each) => ['-f', each]), '--timeout', '10m')
    for (const role of ['api', 'worker', 'scheduler'])
      await cluster.kubectl('rollout', 'status', `deployment/${RELEASE}-${role}`, '--timeout', '10m')
  }
  try {
    const platform = await signUp(forward.url, stores, METRICS_TOKEN)
    const context = {
      cluster,
      platform,
      facts,
      release: RELEASE,
      upgrade,
      standaloneImage: options['standalone-image'],
      pullPolicy: options['pull-policy'],
      killNode: options['kill-node-command'],
      restoreNode: options['restore-node-command'],
    }
    facts.operator = facts.keda && (await hasOperator())
    if (facts.keda && !facts.operator)
      say(
        'skipped',
        'what KEDA does: its objects are known here, but its operator does not answer; the test starts the Jobs itself',
      )
    for (const { name, make } of checks) {
      if (!name.includes(options.only)) continue
      try {
        say('ok', `${name}: ${await make(context)}`)
      } catch (error) {
        const cannot = error instanceof CannotCheck
        if (!cannot) failed++
        say(cannot ? 'skipped' : 'FAILED', `${name}: ${(error as Error).message}`)
      }
    }
  } finally {
    forward.close()
  }
}

function hasOperator(): Promise<boolean> {
  const look = async () =>
    (await cluster.kubectl('get', 'scaledjob', `${RELEASE}-small`, '-o', 'jsonpath={.status.conditions}')).includes(
      'Ready',
    )
  return waitUntil('an answer of KEDA', 20, look).catch(() => false)
}

async function remove(): Promise<void> {
  await cluster
    .helm('uninstall', RELEASE, '--wait', '--timeout', '3m')
    .catch((error: Error) => say('info', error.message))
  await cluster.kubectl('delete', 'namespace', options.namespace, '--wait=false').catch(() => {})
  await waitUntil(
    'the end of the namespace',
    120,
    async () => !(await cluster.has('get', 'namespace', options.namespace)),
  ).catch((error: Error) => say('info', error.message))
}
