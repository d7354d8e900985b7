/** In files a pipeline refers to a saved connector by its name, in the database by its id. */

import { isObject } from '../connectors/settings/settings.ts'
import { nearest } from '../nearest.ts'
import type { ConnectionName } from './current.ts'
import { type Problem, pointerTo } from './problems.ts'

export const SIDES = ['source', 'destination'] as const
export type Side = (typeof SIDES)[number]

/** What stands in the place of a connector that was deleted. Nothing can have this name: it is blank. */
const DELETED = ' '

export function toNames(config: object, names: readonly ConnectionName[]): Record<string, unknown> {
  const byId = new Map(names.map(({ id, name }) => [id, name]))
  const copy: Record<string, unknown> = { ...config }
  for (const side of SIDES) {
    const given = copy[side]
    if (!isObject(given) || given.saved_connector_id === undefined) continue
    const { saved_connector_id: id, ...rest } = given
    copy[side] = { connection: byId.get(String(id).toLowerCase()) ?? DELETED, ...rest }
  }
  return copy
}

/** The names that a config refers to. */
export function namesIn(config: unknown): { side: Side; name: unknown }[] {
  return SIDES.flatMap((side) => {
    const given = isObject(config) ? config[side] : undefined
    return isObject(given) && Object.hasOwn(given, 'connection') ? [{ side, name: given.connection }] : []
  })
}

/** The config as the API takes it; a side that has a problem stays as it was given. */
export function toIds(
  config: Record<string, unknown>,
  names: readonly ConnectionName[],
  at: readonly (string | number)[],
): { config: Record<string, unknown>; problems: Problem[] } {
  const copy = { ...config }
  const problems: Problem[] = []
  for (const side of SIDES) {
    const given = copy[side]
    if (!isObject(given)) continue
    const fault = (field: string, message: string) => problems.push({ pointer: pointerTo(...at, side, field), message })
    if (Object.hasOwn(given, 'saved_connector_id'))
      fault('saved_connector_id', `ids differ between organizations; use connection with the name of a saved ${side}`)
    if (!Object.hasOwn(given, 'connection')) continue
    const { connection, ...rest } = given
    const found = names.filter(({ type, name }) => type === side && name === connection)
    if (found.length === 1) copy[side] = { saved_connector_id: found[0]!.id, ...rest }
    else if (found.length > 1) fault('connection', describeSeveral(`saved ${side}s`, found.length, String(connection)))
    else fault('connection', describeUnknown(side, connection, names))
  }
  return { config: copy, problems }
}

export const describeSeveral = (what: string, count: number, name: string): string =>
  `${count} ${what} are named '${name.slice(0, 100)}'; rename them, so that the name says which one is meant`

function describeUnknown(side: Side, given: unknown, names: readonly ConnectionName[]): string {
  if (typeof given !== 'string') return `must be the name of a saved ${side}`
  if (given === DELETED) return `the saved ${side} was deleted; choose another one`
  const known = names.filter(({ type }) => type === side).map(({ name }) => name)
  const near = nearest(given.slice(0, 100), known.slice(0, 100))
  return `there is no saved ${side} '${given.slice(0, 100)}'${near === null ? '; describe it in connections' : `; did you mean '${near}'?`}`
}
