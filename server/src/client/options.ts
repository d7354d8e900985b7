/** The options of a command as they were given; a flag has the value `yes`. */
import { UsageError } from '../errors.ts'

export type Options = Record<string, string>

export function readCount(options: Options, name: string, most: number): number | undefined {
  const text = options[name]
  if (text === undefined) return undefined
  if (!/^\d{1,9}$/.test(text) || Number(text) < 1 || Number(text) > most)
    throw new UsageError(`${name} must be a whole number from 1 to ${most}, not ${text}.`)
  return Number(text)
}

export function readChoice<Choice extends string>(
  options: Options,
  name: string,
  choices: readonly Choice[],
): Choice | undefined {
  const text = options[name]
  if (text !== undefined && !choices.includes(text as Choice))
    throw new UsageError(`${name} must be one of ${choices.join(', ')}, not ${text}.`)
  return text as Choice | undefined
}
