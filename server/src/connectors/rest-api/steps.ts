/** Processing steps, in the forms that need no Python. */
import { plainNumber } from '../../json/exact.ts'
import type { Json } from '../../json/json.ts'
import { isFields, lookUp, lookUpAll, setAt } from '../http/paths.ts'
import type { Transform } from '../http/records-plan.ts'
import type { Fields } from '../http/scope.ts'
import { fault } from './fault.ts'
import { parsePath, parseValuePath } from './json-path.ts'
import type { ConditionSettings, StepSettings } from './settings.ts'

export function compileSteps(steps: readonly StepSettings[], at: string): Transform[] {
  return steps.flatMap((step, index) => {
    const place = `${at}[${index}]`
    const kinds = Object.keys(step)
    if (kinds.length !== 1) throw fault(place, 'must have one of filter, map and yield_map')
    if (step.filter) return [compileFilter(step.filter, `${place}.filter`)]
    if (step.map) return [compileMap(step.map, `${place}.map`)]
    return [compileExplode(step.yield_map!, `${place}.yield_map`)]
  })
}

function compileFilter({ field, ...tests }: ConditionSettings, at: string): Transform {
  const path = parseValuePath(field, `${at}.field`)
  const names = Object.keys(tests) as (keyof typeof tests)[]
  if (names.length === 0)
    throw fault(at, 'needs a test: equals, not_equals, in, not_in, greater_than, less_than or exists')
  const passes = (record: Fields): boolean => {
    const value = plainNumber(lookUp(record, path) ?? null)
    return names.every((name) => holds(name, value, tests[name] as Json))
  }
  return (record) => (passes(record) ? undefined : [])
}

function holds(test: string, value: Json, wanted: Json): boolean {
  switch (test) {
    case 'equals':
      return value === wanted
    case 'not_equals':
      return value !== wanted
    case 'in':
      return (wanted as Json[]).includes(value)
    case 'not_in':
      return !(wanted as Json[]).includes(value)
    case 'exists':
      return (value !== null) === wanted
    case 'greater_than':
      return typeof value === typeof wanted && value! > wanted!
    default:
      return typeof value === typeof wanted && value! < wanted!
  }
}

type MapSettings = NonNullable<StepSettings['map']>

/** In this order: select, rename, remove, set. */
function compileMap({ select, rename, remove, set }: MapSettings, at: string): Transform {
  const removed = (remove ?? []).map((path, index) => parseValuePath(path, `${at}.remove[${index}]`))
  const added = Object.entries(set ?? {}).map(
    ([path, value]) => [parseValuePath(path, `${at}.set.${path}`), value] as const,
  )
  const names = new Map(Object.entries(rename ?? {}))
  const kept = select === undefined ? null : new Set(select)
  return (record) => {
    const entries = Object.entries(record).filter(([name]) => kept === null || kept.has(name))
    const result: Fields = Object.fromEntries(entries.map(([name, value]) => [names.get(name) ?? name, value]))
    for (const path of removed) removeAt(result, path)
    for (const [path, value] of added) setAt(result, path, value as Json)
    return result
  }
}

function removeAt(record: Fields, path: readonly string[]): void {
  const holder = lookUp(record, path.slice(0, -1))
  if (isFields(holder)) delete holder[path.at(-1)!]
}

/** Items that are not objects are in the field `value`. */
function compileExplode({ explode, keep }: NonNullable<StepSettings['yield_map']>, at: string): Transform {
  const path = parsePath(explode, `${at}.explode`)
  return (record) => {
    const kept = Object.fromEntries((keep ?? []).map((name) => [name, record[name] ?? null]))
    return lookUpAll(record, path)
      .flat()
      .map((item) => ({ ...kept, ...(isFields(item) ? item : { value: item }) }))
  }
}
