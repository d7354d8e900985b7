/** RequestOption: where a value goes in a request. */
import type { Injection } from '../../http/scope.ts'
import { type Component, given, isDict, typeOf } from '../component.ts'
import { Unsupported } from '../problems.ts'
import type { Environment } from './environment.ts'
import { settingText } from './templates.ts'

const PLACES: Record<string, Injection['into']> = {
  request_parameter: 'param',
  header: 'header',
  body_data: 'form',
  body_json: 'json',
}

function compileInjection(option: Component, environment: Environment): Injection {
  const place = given(option, 'inject_into')
  const into = typeof place === 'string' ? PLACES[place] : undefined
  if (into === undefined)
    throw new Unsupported(`${typeOf(option)}.inject_into ${JSON.stringify(place ?? null)} is unknown`)
  const names = given(option, 'field_path') ?? given(option, 'field_name')
  const path = Array.isArray(names) ? names : [names]
  if (path.length === 0 || !path.every((part) => typeof part === 'string' || typeof part === 'number')) {
    throw new Unsupported(`${typeOf(option)} has no field_name`)
  }
  if (path.length > 1 && into !== 'json') throw new Unsupported('RequestOption.field_path is for body_json only')
  // Only the settings exist in these templates, so they are evaluated here.
  const site = { environment, owner: option, known: 'config' as const }
  return { into, path: path.map((part) => settingText(String(part), site)) }
}

export function optionalInjection(owner: Component, field: string, environment: Environment): Injection | null {
  const option = given(owner, field)
  if (option === undefined) return null
  if (!isDict(option)) throw new Unsupported(`${typeOf(owner)}.${field} is not a request option`)
  return compileInjection({ type: 'RequestOption', ...option } as Component, environment)
}
