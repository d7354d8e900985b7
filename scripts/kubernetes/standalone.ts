/** `sluice start` in one pod, with the embedded PostgreSQL and the sandbox, as restricted as a pod can be. */
import { CannotCheck, type Check, seconds } from './check.ts'
import { waitUntil } from './cluster.ts'
import { askSandbox, register } from './platform.ts'

const NAME = 'standalone'
const METRICS_TOKEN = 'only-for-this-test'
const PREVIEWS = 30
const SOURCE = `
from svc.source.base import AbstractSource
from svc.source.models import SourceRecord


class Numbers(AbstractSource):
    name = "numbers"

    def get_streams(self):
        return ["numbers"]

    def check_connection(self):
        return True

    def get_records(self, stream):
        for number in range(10):
            yield SourceRecord(id=str(number), data={"number": number})
`

export const standalone: Check = {
  name: 'sluice start runs in one pod without rights, and previews a source',
  async make({ cluster, standaloneImage, pullPolicy }) {
    if (standaloneImage === undefined) throw new CannotCheck('--standalone-image is not given')
    const began = performance.now()
    await cluster.apply(JSON.stringify(podOf(standaloneImage, pullPolicy)), 'create')
    try {
      await cluster.kubectl('wait', '--for=condition=ready', `pod/${NAME}`, '--timeout=300s')
      const ready = seconds(began)
      const forward = await cluster.forward(`pod/${NAME}`)
      try {
        const call = await register(forward.url)
        const times: number[] = []
        for (let index = 0; index < PREVIEWS; index++) {
          const answer = await call('POST', '/api/custom-sources/preview', {
            code: SOURCE,
            stream: 'numbers',
            config: {},
          })
          if (!answer.success || answer.records.length !== 10) throw new Error(`a preview failed: ${answer.error}`)
          times.push(answer.execution_time_ms)
        }
        const sandbox = await waitUntil('the sandbox', 60, async () => {
          const state = await askSandbox(forward.url, METRICS_TOKEN)
          return state === 'not started' ? null : state
        })
        if (sandbox !== 'ok') throw new Error(`custom sources are disabled: ${sandbox}`)
        times.sort((one, other) => one - other)
        return `ready in ${ready} with its own PostgreSQL; a preview takes ${times[0]} ms at best, ${times[PREVIEWS / 2]} ms at the median of ${PREVIEWS}`
      } finally {
        forward.close()
      }
    } finally {
      await cluster.kubectl('delete', 'pod', NAME, '--wait=false')
    }
  },
}

const podOf = (image: string, imagePullPolicy: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: NAME },
  spec: {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 10001,
      runAsGroup: 10001,
      fsGroup: 10001,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    containers: [
      {
        name: 'sluice',
        image,
        imagePullPolicy,
        args: ['start'],
        env: [{ name: 'METRICS_TOKEN', value: METRICS_TOKEN }],
        securityContext: {
          readOnlyRootFilesystem: true,
          allowPrivilegeEscalation: false,
          capabilities: { drop: ['ALL'] },
        },
        ports: [{ name: 'http', containerPort: 8080 }],
        readinessProbe: { httpGet: { path: '/readyz', port: 'http' }, periodSeconds: 1, timeoutSeconds: 5 },
        volumeMounts: [
          { name: 'tmp', mountPath: '/tmp' },
          { name: 'data', mountPath: '/data' },
        ],
      },
    ],
    volumes: [
      { name: 'tmp', emptyDir: {} },
      { name: 'data', emptyDir: {} },
    ],
  },
})
