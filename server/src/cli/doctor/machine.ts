/** What does not need the database: disk and versions. */
import { execFile } from 'node:child_process'
import { tmpdir } from 'node:os'
import { promisify } from 'node:util'
import { findFreeBytes, KEPT_FREE_BYTES } from '../../blobs/disk-space.ts'
import type { Config } from '../../config/config.ts'
import { VERSION } from '../../version.ts'
import { requireTemporaryFolder } from '../temporary-folder.ts'
import { type Finding, lookAt, ok, problem, warning } from './finding.ts'

const LITTLE_BYTES = 2 * 1024 ** 3
const OLDEST_NODE = 22
const ASK_MS = 10_000

export const lookAtMachine = async (config: Config): Promise<Finding[]> => [
  ...lookAtDisk(config),
  ...(await lookAt('disk', 'No role starts without it.', async () => {
    requireTemporaryFolder()
    return []
  })),
  ...(await lookAtVersions(config)),
]

function lookAtDisk({ DATA_DIR }: Config): Finding[] {
  const places = new Set([DATA_DIR, tmpdir()])
  return [...places].map((place) => {
    const free = findFreeBytes(place)
    if (free === Number.POSITIVE_INFINITY) return ok('disk', `${place}: its free space is not known`)
    const text = `${place}: ${(free / 1024 ** 3).toFixed(1)} GB free`
    const advice = 'Free some space, lower RUN_RETENTION_DAYS, or move DATA_DIR or TMPDIR to a larger disk.'
    if (free < KEPT_FREE_BYTES) return problem('disk', `${text}; runs are refused below 0.25 GB`, advice)
    return free < LITTLE_BYTES ? warning('disk', text, advice) : ok('disk', text)
  })
}

const lookAtVersions = ({ PYTHON }: Config): Promise<Finding[]> =>
  lookAt('versions', 'Install Python 3 and set PYTHON to it.', async () => {
    const ask = promisify(execFile)
    const node = Number.parseInt(process.versions.node, 10)
    const findings = [ok('versions', `Sluice ${VERSION}, Node ${process.versions.node}`)]
    if (node < OLDEST_NODE)
      findings.push(
        problem('versions', `Node ${process.versions.node} is too old`, `Run npm ci, which installs a newer one.`),
      )
    const python = await ask(PYTHON, ['--version'], { timeout: ASK_MS }).then(
      ({ stdout, stderr }) => (stdout || stderr).trim(),
      () => null,
    )
    findings.push(
      python === null
        ? problem(
            'versions',
            `${PYTHON} cannot be run, so there are no custom sources`,
            'Install Python 3.9 or later, or set PYTHON to its path.',
          )
        : ok('versions', python),
    )
    const setpriv = await ask('setpriv', ['--version'], { timeout: ASK_MS }).then(Boolean, () => false)
    if (!setpriv)
      findings.push(
        warning(
          'versions',
          'setpriv is not installed, so processes may outlive the one that started them for a moment',
          'Install util-linux.',
        ),
      )
    return findings
  })
