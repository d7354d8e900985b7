/** `sluice doctor`: looks at everything the service depends on, changes nothing, and says what to do about each problem. */
import { type Config, readConfig } from '../config/config.ts'
import { type Finding, type Part, worstOf } from './doctor/finding.ts'
import { lookAtMachine } from './doctor/machine.ts'
import { lookAtService } from './doctor/service.ts'
import { requireInstallation, withDatabase } from './open-database.ts'

export async function examine(options: Record<string, string>): Promise<number> {
  // What would be logged is among the findings.
  const findings = await collect({ ...readConfig(), LOG_LEVEL: 'silent' })
  if (options['--json']) console.log(JSON.stringify({ status: worstOf(findings), findings }, null, 2))
  else for (const line of findings.flatMap(describe)) console.log(line)
  return worstOf(findings) === 'problem' ? 1 : 0
}

async function collect(config: Config): Promise<Finding[]> {
  const machine = await lookAtMachine(config)
  try {
    requireInstallation(config, 'of the installation to look at, or start the service once')
    return [...(await withDatabase((open) => lookAtService(open), config)), ...machine]
  } catch (error) {
    return [...unreachable(error as Error), ...machine]
  }
}

const BEHIND_DATABASE: Part[] = ['queue', 'blobs', 'sandbox', 'egress', 'keys', 'clock']

const unreachable = (error: Error): Finding[] => [
  {
    part: 'database',
    status: 'problem',
    found: error.message,
    advice: 'Check DATABASE_URL, or DATA_DIR, and that the server runs.',
  },
  ...BEHIND_DATABASE.map(
    (part): Finding => ({ part, status: 'unknown', found: 'was not looked at, because the database cannot be used' }),
  ),
]

const MARKS = { ok: 'ok      ', warning: 'warning ', problem: 'PROBLEM ', unknown: '?       ' }

const describe = ({ part, status, found, advice }: Finding): string[] => [
  `${MARKS[status]} ${part.padEnd(9)} ${found}`,
  ...(advice === undefined ? [] : [`${' '.repeat(19)}→ ${advice}`]),
]
