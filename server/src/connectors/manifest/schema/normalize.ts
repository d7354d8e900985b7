/** `schema_normalization: Default`: values become the type that the schema names, where they can. */
import type { Json } from '../../../json/json.ts'
import type { Transform } from '../../http/records-plan.ts'
import { type Dict, isDict } from '../component.ts'
import { Unsupported } from '../problems.ts'
import { isRaw, toText, type Value } from '../template/values.ts'

const MOST_DEPTH = 100

export function compileNormalization(setting: Json | undefined, schema: Json | null): Transform | null {
  if (setting === undefined || setting === 'None' || setting === 'none') return null
  if (isDict(setting)) throw new Unsupported(`${String(setting.type)} is not supported`)
  if (setting !== 'Default') throw new Unsupported(`schema_normalization ${JSON.stringify(setting)} is unknown`)
  if (schema === null) throw new Unsupported('schema_normalization needs a schema that the manifest holds')
  return (record) => {
    normalizeObject(record, schema, 0)
    return undefined
  }
}

function normalizeObject(value: Json, schema: Json, depth: number): void {
  if (!isDict(schema) || depth > MOST_DEPTH) return
  const { properties, items } = schema
  if (isDict(properties) && isDict(value) && !isRaw(value as Value)) {
    for (const [key, inner] of Object.entries(properties)) {
      if (!Object.hasOwn(value, key) || !isDict(inner)) continue
      value[key] = convert(value[key]!, inner)
      normalizeObject(value[key]!, inner, depth + 1)
    }
  }
  if (isDict(items) && Array.isArray(value)) {
    for (const [at, item] of value.entries()) {
      value[at] = convert(item, items)
      normalizeObject(value[at]!, items, depth + 1)
    }
  }
}

function convert(value: Json, schema: Dict): Json {
  const { type } = schema
  const types = Array.isArray(type) ? type.map(String) : typeof type === 'string' ? [type] : []
  if (value === null && types.includes('null')) return null
  const [target, ...others] = Array.isArray(type) ? types.filter((name) => name !== 'null') : types
  if (target === undefined || others.length > 0) return value
  if (target === 'string') return toText(value as Value)
  if (target === 'number') return numberFrom(value) ?? value
  if (target === 'integer') return integerFrom(value) ?? value
  if (target === 'boolean') return booleanFrom(value)
  return target === 'array' && isSimple(value) && itemsAreSimple(schema.items) ? [value] : value
}

function numberFrom(value: Json): Json | null {
  if (typeof value === 'number' || isRaw(value as Value)) return value
  if (typeof value === 'boolean') return Number(value)
  if (typeof value !== 'string' || !/^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*$/.test(value)) return null
  return Number(value)
}

function integerFrom(value: Json): Json | null {
  if (typeof value === 'number') return Math.trunc(value)
  if (isRaw(value as Value)) return value
  if (typeof value === 'boolean') return Number(value)
  if (typeof value !== 'string' || !/^\s*[+-]?\d+\s*$/.test(value)) return null
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : null
}

function booleanFrom(value: Json): Json {
  if (typeof value === 'string') {
    if (/^(y|yes|t|true|on|1)$/i.test(value)) return true
    return /^(n|no|f|false|off|0)$/i.test(value) ? false : value
  }
  if (value === null || typeof value === 'boolean') return value ?? false
  if (typeof value === 'number') return value !== 0
  return Object.keys(value).length > 0
}

function isSimple(value: Json): boolean {
  return value !== null && typeof value !== 'object'
}

const SIMPLE = ['string', 'number', 'integer', 'boolean', 'null']

function itemsAreSimple(items: Json | undefined): boolean {
  const type = isDict(items) ? items.type : undefined
  return Array.isArray(type) ? type.every((name) => SIMPLE.includes(String(name))) : type === undefined
}
