/** Methods of Python's dict and list. */
import { itemsOf, numberArgument } from './arguments.ts'
import { countItems, step } from './limits.ts'
import { compareOrder, equals } from './operators.ts'
import {
  type Dict,
  getKey,
  isDict,
  keyText,
  type Method,
  setKey,
  TemplateError,
  Tuple,
  type Value,
  WrongType,
} from './values.ts'

export const DICT_METHODS: Record<string, Method<Dict>> = {
  copy: (self) => ({ ...self }),
  get: (self, [key, fallback]) => {
    const value = getKey(self, keyText(key ?? null))
    return value === undefined ? (fallback ?? null) : value
  },
  items: (self) => Object.entries(self).map((entry) => Tuple.from(entry)),
  keys: (self) => Object.keys(self),
  pop: (self, [key, fallback]) => {
    const name = keyText(key ?? null)
    const found = getKey(self, name)
    const value = found === undefined ? fallback : found
    if (value === undefined) throw new TemplateError(`there is no key ${JSON.stringify(name)}`)
    delete self[name]
    return value
  },
  setdefault: (self, [key, fallback]) => {
    const name = keyText(key ?? null)
    if (!Object.hasOwn(self, name)) setKey(self, name, fallback ?? null)
    return self[name]!
  },
  update: (self, [other], named) => {
    for (const source of [other ?? {}, named]) {
      if (!isDict(source)) throw new WrongType('update needs a dict')
      for (const [key, value] of Object.entries(source)) setKey(self, key, value)
    }
    step(8)
    return null
  },
  values: (self) => Object.values(self),
}

export const LIST_METHODS: Record<string, Method<Value[]>> = {
  append: (self, [item]) => {
    grow(self, 1)
    self.push(item ?? null)
    return null
  },
  copy: (self) => [...self],
  count: (self, [item]) => self.filter((candidate) => equals(candidate, item ?? null)).length,
  extend: (self, [items]) => {
    const added = itemsOf(items ?? null)
    grow(self, added.length)
    self.push(...added)
    return null
  },
  index: (self, [item]) => {
    const at = self.findIndex((candidate) => equals(candidate, item ?? null))
    if (at === -1) throw new TemplateError('the value is not in the list')
    return at
  },
  insert: (self, [at, item]) => {
    grow(self, 1)
    self.splice(numberArgument(at, 'index'), 0, item ?? null)
    return null
  },
  pop: (self, [at]) => {
    const index = at === undefined ? self.length - 1 : numberArgument(at, 'index')
    const [removed] = self.splice(index, 1)
    if (removed === undefined) throw new TemplateError('pop from an empty list')
    return removed
  },
  remove: (self, [item]) => {
    const at = self.findIndex((candidate) => equals(candidate, item ?? null))
    if (at === -1) throw new TemplateError('the value is not in the list')
    self.splice(at, 1)
    return null
  },
  reverse: (self) => {
    self.reverse()
    return null
  },
  sort: (self) => {
    countItems(self.length * 4)
    self.sort(compareOrder)
    return null
  },
}

/** A list that holds itself could be printed without end: depth is limited where values are printed and compared. */
function grow(self: Value[], by: number): void {
  countItems(self.length + by)
}
