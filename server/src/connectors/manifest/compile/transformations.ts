/** Transformations of records. */
import type { Json } from '../../../json/json.ts'
import type { Transform } from '../../http/records-plan.ts'
import type { Fields } from '../../http/scope.ts'
import {
  type Component,
  components,
  type Dict,
  flag,
  given,
  isDict,
  optionalComponent,
  optionalText,
  text,
} from '../component.ts'
import { deleteAt, setAt, valueAt, valuesAt } from '../paths.ts'
import { Unsupported } from '../problems.ts'
import type { Value } from '../template/values.ts'
import type { Environment, Place } from './environment.ts'
import { compilePath } from './selector-paths.ts'
import { condition, kindsOf, type More, presentValue, type Site, settingText, textValue } from './templates.ts'

export function compileTransformation(part: Component, environment: Environment, place: Place): Transform {
  const site: Site = { environment, owner: part, known: 'added', also: place.extra }
  switch (part.type) {
    case 'AddFields':
      return compileAddFields(part, site)
    case 'RemoveFields':
      return compileRemoveFields(part, site)
    case 'KeysToLower':
      return (record) => mapKeys(record, (key) => key.toLowerCase(), false)
    case 'KeysToSnakeCase':
      return (record) => mapKeys(record, snakeKey, true)
    case 'KeysReplace':
      return compileKeysReplace(part, site)
    case 'FlattenFields': {
      const lists = given(part, 'flatten_lists') !== false
      return (record) => flatten(record, lists)
    }
    case 'DpathFlattenFields':
      return compileDpathFlatten(part, environment)
    default:
      throw new Unsupported(`${part.type} is not supported`)
  }
}

function compileAddFields(part: Component, site: Site): Transform {
  const source = given(part, 'condition')
  const when = source === undefined || source === '' ? null : condition(source, site)
  const fields = components(part, 'fields').map((field) => {
    const path = given(field, 'path')
    if (!Array.isArray(path) || path.length === 0) throw new Unsupported('AddedFieldDefinition.path is not a list')
    const value = presentValue(optionalText(field, 'value') ?? '', { ...site, owner: field }, kindsOf(field))
    return { path: path.map(String), value }
  })
  return (record, scope) => {
    const inner = { ...scope, record }
    for (const { path, value } of fields) {
      const made = value(inner)
      if (when === null || when(inner, { value: made as Value, path } as More)) setAt(record, path, made)
    }
    return undefined
  }
}

function compileRemoveFields(part: Component, site: Site): Transform {
  const pointers = given(part, 'field_pointers')
  if (!Array.isArray(pointers)) throw new Unsupported('RemoveFields.field_pointers is not a list')
  const paths = pointers.map((pointer) => (Array.isArray(pointer) ? pointer.map(String) : String(pointer).split('/')))
  const source = given(part, 'condition')
  const when = source === undefined || source === '' ? null : condition(source, { ...site, known: 'removed' })
  return (record, scope) => {
    for (const path of paths) {
      deleteAt(record, path, when === null ? null : (value) => when(scope, { property: value as Value }))
    }
    return undefined
  }
}

function compileKeysReplace(part: Component, site: Site): Transform {
  const inner: Site = { ...site, known: 'record' }
  const [from, to] = [textValue(text(part, 'old'), inner), textValue(optionalText(part, 'new') ?? '', inner)]
  return (record, scope) => {
    const [old, replacement] = [from({ ...scope, record }), to({ ...scope, record })]
    return mapKeys(record, (key) => key.replaceAll(old, replacement), true)
  }
}

function compileDpathFlatten(part: Component, environment: Environment): Transform {
  const path = compilePath(part, 'field_path', environment)
  const [remove, replace] = [flag(part, 'delete_origin_value'), flag(part, 'replace_record')]
  const keys = optionalComponent(part, 'key_transformation')
  const affix = (field: string): string => {
    const source = keys === null ? null : optionalText(keys, field)
    return source === null ? '' : settingText(source, { environment, owner: keys!, known: 'config' })
  }
  const [prefix, suffix] = [affix('prefix'), affix('suffix')]
  return (record) => {
    const found = path.includes('*') ? valuesAt(record, path)[0] : valueAt(record, path)
    if (!isDict(found)) return undefined
    const extracted = Object.fromEntries(
      Object.entries(found).map(([key, value]) => [`${prefix}${key}${suffix}`, value]),
    )
    if (replace && Object.keys(extracted).length > 0) return extracted
    if (Object.keys(extracted).some((key) => Object.hasOwn(record, key))) return undefined
    if (remove) deleteAt(record, path, null)
    Object.assign(record, extracted)
    return undefined
  }
}

function mapKeys(record: Fields, rename: (key: string) => string, deep: boolean): Fields {
  return Object.fromEntries(
    Object.entries(record).map(([key, value]) => [
      rename(key),
      deep && isPlainDict(value) ? mapKeys(value, rename, true) : value,
    ]),
  )
}

/** A number that is kept as its digits is an object, but not a mapping. */
function isPlainDict(value: Json): value is Dict {
  return isDict(value) && Object.getPrototypeOf(value) !== null
}

/** Words of letters in one case, and numbers, joined by underscores; accents are dropped. */
function snakeKey(key: string): string {
  const plain = key.normalize('NFKD').replace(/[\u0300-\u036f]/g, '')
  const all = [...plain.matchAll(/[A-Z]+[a-z]*|[a-z]+|\d+|([^a-zA-Z\d]+)/g)].map((match) =>
    match[1] === undefined ? match[0] : '',
  )
  const words = all.filter((word, at) => word !== '' || at === 0 || at === all.length - 1)
  if (words.length > 0 && /^\d+$/.test(words[0]!)) words.unshift('')
  return words.map((word) => word.toLowerCase()).join('_')
}

/** Nested values become fields of their own name, or of their path where that name is taken or they are in a list. */
function flatten(record: Fields, lists: boolean): Fields {
  const made: Fields = {}
  const stack: Array<[Json, string]> = [[record, '_']]
  let named = false
  for (let top = stack.pop(); top !== undefined; top = stack.pop()) {
    const [value, name] = top
    if (isPlainDict(value)) {
      for (const [key, inner] of Object.entries(value)) {
        stack.push([inner, Object.hasOwn(made, key) || named ? `${name}.${key}` : key])
      }
    } else if (Array.isArray(value) && lists) {
      for (const [at, item] of value.entries()) stack.push([item, `${name}.${at}`])
      if (value.length > 0) named = true
    } else made[name] = value
  }
  return made
}
