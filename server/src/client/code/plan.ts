/**
 * `sluice plan DIR` and `sluice apply DIR`. The service makes the plan; applying sends it again with what it was made from,
 * so that nothing is applied that was not shown.
 */
import { OperatorError, UsageError } from '../../errors.ts'
import type { Options } from '../options.ts'
import { createOutput, type Output } from '../output.ts'
import { confirm } from '../prompt.ts'
import { connectService, type Service } from '../service.ts'
import { plural } from '../words.ts'
import type { Plan } from './objects.ts'
import { type LocatedProblem, type ReadFolder, readFolder } from './read-folder.ts'
import { compareProblems, describeProblem, showPlan, sumUp, toMarkdown } from './show-plan.ts'
import { readVariables } from './variables.ts'

const NOTHING = 0
const PROBLEMS = 1
const CHANGES = 2

interface Planned {
  service: Service
  read: ReadFolder
  request: object
  plan: Plan
  problems: LocatedProblem[]
}

export async function planFolder(folder: string, options: Options): Promise<number> {
  const output = createOutput(options)
  const planned = await makePlan(folder, options)
  show(output, planned, options)
  if (planned.problems.length > 0) return PROBLEMS
  return planned.plan.changes.length === 0 ? NOTHING : CHANGES
}

export async function applyFolder(folder: string, options: Options): Promise<number> {
  const output = createOutput(options)
  const ask = options['--yes'] === undefined
  if (ask && (output.json || process.stdin.isTTY !== true))
    throw new OperatorError('Nobody can be asked here; use --yes to apply without a question.')
  const planned = await makePlan(folder, options)
  const { plan, problems, service, request } = planned
  if (problems.length > 0 || plan.changes.length === 0 || !output.json) show(output, planned, options)
  if (problems.length > 0) return PROBLEMS
  if (plan.changes.length === 0) return NOTHING
  if (ask && !(await confirm(`Apply this to ${service.url}?`))) {
    output.note('Nothing was changed.')
    return PROBLEMS
  }
  const applied = await service.call<Plan>('POST', '/api/changes', { ...request, base: plan.base })
  if (output.json) output.data({ ...applied, problems: [] })
  else output.line({ style: 'green', text: `Applied: ${sumUp(applied.changes, true)}.` })
  return 0
}

async function makePlan(folder: string, options: Options): Promise<Planned> {
  try {
    const read = await readFolder(folder, await readVariables(folder, options))
    const service = await connectService(options)
    const request = {
      objects: read.objects,
      // Without what cannot be read, too much would be deleted.
      prune: options['--prune'] !== undefined && read.problems.length === 0,
      ...(options['--domain'] !== undefined && { domain: options['--domain'] }),
    }
    const schemas = options['--no-schemas'] === undefined
    const plan = await service.call<Plan>('POST', '/api/changes', { ...request, dry_run: true, schemas })
    return {
      service,
      read,
      request,
      plan,
      problems: [...read.problems, ...plan.problems.map((each) => read.locate(each))].sort(compareProblems),
    }
  } catch (error) {
    // 2 means that there are changes.
    if (error instanceof UsageError) throw new OperatorError(error.message)
    throw error
  }
}

function show(output: Output, { plan, problems, read }: Planned, options: Options): void {
  if (options['--markdown'] !== undefined) {
    for (const line of toMarkdown(plan, problems).trimEnd().split('\n')) output.line(line)
    return
  }
  if (output.json) {
    output.data({ ...plan, problems })
    return
  }
  for (const problem of problems) output.note({ style: 'red', text: describeProblem(problem) })
  if (problems.length > 0) {
    output.note(`${plural(problems.length, 'problem')}; nothing can be applied.`)
    return
  }
  const kept = read.missing.length
  if (kept > 0) output.note(`${plural(kept, 'reference')} without a value: what is stored there stays.`)
  showPlan(output, plan)
}
