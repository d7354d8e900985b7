/** Replaces the references in a config by their values. */
import { referencesIn, resolveText } from '../../changes/references.ts'
import { type Kind, MASK } from './objects.ts'
import type { Variables } from './variables.ts'

type Steps = (string | number)[]

/** A reference without a value. What is stored stays; for a new object the service asks for it. */
export interface Missing {
  kind: Kind
  index: number
  pointer: string
  message: string
}

interface Resolved {
  value: unknown
  missing: Pick<Missing, 'pointer' | 'message'>[]
  faults: { steps: Steps; message: string }[]
}

export function resolveReferences(config: unknown, at: Steps, variables: Variables): Resolved {
  const resolved: Resolved = { value: null, missing: [], faults: [] }
  const visit = (value: unknown, steps: Steps): unknown => {
    if (typeof value === 'string') return resolveOne(value, steps)
    if (Array.isArray(value)) return value.map((item, index) => visit(item, [...steps, index]))
    if (typeof value === 'number' && !Number.isFinite(value)) {
      resolved.faults.push({ steps, message: `${value} is not a number that JSON has; use another one` })
      return null
    }
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, visit(inner, [...steps, name])]))
  }
  const resolveOne = (text: string, steps: Steps): unknown => {
    const names = referencesIn(text).map(({ name }) => name)
    const own = names.find((name) => /^SLUICE_/i.test(name))
    if (own !== undefined) {
      resolved.faults.push({
        steps,
        message: `\${${own}} is a setting of sluice itself and is never sent; use another name`,
      })
      return MASK
    }
    const without = names.filter((name) => variables(name) === undefined)
    if (without.length > 0) {
      const list = [...new Set(without)].map((name) => `\${${name}}`).join(' and ')
      resolved.missing.push({
        pointer: `/${steps.join('/')}`,
        message: `${list} has no value; set it in the environment or in a .env file`,
      })
      return MASK
    }
    try {
      return resolveText(text, (name) => variables(name)!)
    } catch {
      // The value itself is a secret and is not repeated.
      resolved.faults.push({
        steps,
        message: `the value of ${text} is not valid JSON; a text is written without :json`,
      })
      return MASK
    }
  }
  resolved.value = visit(config, at)
  return resolved
}
