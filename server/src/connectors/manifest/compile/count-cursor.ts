/** IncrementingCountCursor: a number that grows with every record. */

import type { Json } from '../../../json/json.ts'
import { ConnectorError } from '../../contract.ts'
import type { Cursor } from '../../http/cursor.ts'
import { type Component, optionalText, refuse, text } from '../component.ts'
import type { Environment } from './environment.ts'
import { optionalInjection } from './injection.ts'
import { anyValue, type Site, settingText } from './templates.ts'

export function compileCountCursor(cursor: Component, environment: Environment): Cursor {
  refuse(cursor, ['allow_catalog_defined_cursor_field'])
  const site: Site = { environment, owner: cursor, known: 'config' }
  const start = anyValue(optionalText(cursor, 'start_value') ?? '0', site)
  const at = optionalInjection(cursor, 'start_value_option', environment)
  return {
    field: [settingText(text(cursor, 'cursor_field'), site)],
    read: (value) => (value === undefined || value === null ? null : countOf(value)),
    compare: (a, b) => countOf(a) - countOf(b),
    range: (last) => ({ lower: last === null ? countOf(start(null) || 0) : last, upper: null }),
    within: ({ from, to }) => ({ lower: countOf(from), upper: countOf(to) }),
    split: ({ lower }) => [{ start: lower }],
    inject: at === null ? [] : [{ field: 'start', at }],
    clientSide: false,
    newestFirst: false,
    global: false,
    skipsSeen: true,
  }
}

function countOf(value: Json): number {
  const number = Number(value)
  if (Number.isFinite(number)) return number
  throw new ConnectorError('source', `the cursor value ${JSON.stringify(value).slice(0, 60)} is not a number`)
}
