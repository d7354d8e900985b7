/** Parses the arguments of `sluice`. Anything unknown is refused: a typo must not run something else. */
import { settings } from '../config/settings.ts'
import { nearest } from '../connectors/settings/nearest.ts'
import { OperatorError } from '../errors.ts'

/** A command line that cannot be run as written. */
export class UsageError extends OperatorError {}

export interface Command {
  /** One word, or two: `keys rotate`. */
  name: string
  /** The arguments that must follow the name, as the usage shows them. */
  parameters?: string[]
  /** Options with the name of their value: `--stream` → `NAME`. */
  options?: Record<string, string>
  about: string
  run(values: string[], options: Record<string, string>): Promise<number>
}

/** The usage of a command, without `sluice`. */
export const usageOf = ({ name, parameters = [], options = {} }: Command): string =>
  [name, ...parameters, ...Object.entries(options).map(([option, value]) => `[${option} ${value}]`)].join(' ')

const HELP = ['--help', '-h']

/** `values` is null if only the usage was requested. */
export function readCommand(
  args: string[],
  commands: readonly Command[],
): { command: Command; values: string[] | null; options: Record<string, string> } {
  const command = commands.find(({ name }) => name === args.slice(0, wordsOf(name)).join(' '))
  if (!command) throw new UsageError(describeUnknown(args, commands))
  const given = args.slice(wordsOf(command.name))
  if (given.some((word) => HELP.includes(word))) return { command, values: null, options: {} }
  const { parameters = [] } = command
  const usage = `Usage: sluice ${usageOf(command)}`
  const { rest, options } = takeOptions(given, command, usage)
  if (rest.length < parameters.length)
    throw new UsageError(`sluice ${command.name} needs ${parameters.slice(rest.length).join(' and ')}. ${usage}`)
  const [extra] = rest.slice(parameters.length)
  if (extra !== undefined) throw new UsageError(`sluice ${command.name} takes no argument '${extra}'. ${usage}`)
  return { command, values: rest, options }
}

/** `--name value` or `--name=value`, at any position; the rest is returned. */
function takeOptions(
  given: string[],
  command: Command,
  usage: string,
): { rest: string[]; options: Record<string, string> } {
  const options: Record<string, string> = {}
  const rest: string[] = []
  const words = [...given]
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    if (!word.startsWith('-')) {
      rest.push(word)
      continue
    }
    const [name = '', ...inline] = word.split('=')
    if (!Object.hasOwn(command.options ?? {}, name)) throw new UsageError(`${describeOption(command, word)} ${usage}`)
    const value = inline.length > 0 ? inline.join('=') : words.shift()
    if (value === undefined || value === '')
      throw new UsageError(`sluice ${command.name} ${name} needs ${command.options![name]}. ${usage}`)
    options[name] = value
  }
  return { rest, options }
}

const wordsOf = (name: string) => name.split(' ').length

function describeUnknown([first = '', second]: string[], commands: readonly Command[]): string {
  if (first.startsWith('-')) return `${describeOption(null, first)} See sluice --help.`
  const names = commands.map(({ name }) => name)
  const family = names.filter((name) => name.startsWith(`${first} `))
  if (family.length > 0 && second === undefined)
    return `sluice ${first} needs to know what to do: ${family.join(', ')}. See sluice --help.`
  const [given, known] = family.length > 0 ? [`${first} ${second}`, family] : [first, firstWords(names)]
  return `There is no command '${given}'. ${meaning(given, known) ?? `There is ${known.join(', ')}.`} See sluice --help.`
}

const firstWords = (names: string[]) => [...new Set(names.map((name) => name.split(' ')[0]!))]

/** People often try to pass settings as options. */
function describeOption(command: Command | null, given: string): string {
  const here = ['sluice', command?.name].filter(Boolean).join(' ')
  const option = given.split('=')[0]!
  const setting = nearest(option.replace(/^-+/, '').toUpperCase().replaceAll('-', '_'), Object.keys(settings))
  const hint =
    meaning(option, command ? ['--help', ...Object.keys(command.options ?? {})] : ['--help', '--version']) ??
    (setting && `Settings are environment variables: ${setting}=… ${here}.`)
  return [`${here} has no option ${option}.`, hint].filter(Boolean).join(' ')
}

function meaning(word: string, known: readonly string[]): string | null {
  const near = nearest(word, known)
  return near === null ? null : `Did you mean ${near}?`
}
