/** Parses the arguments of `sluice`. Anything unknown is refused: a typo must not run something else. */
import { UsageError } from '../errors.ts'
import { nearest } from '../nearest.ts'

export interface Command {
  /** One word, or two: `keys rotate`. */
  name: string
  /** The arguments that must follow the name, as the usage shows them; one in brackets may be missing. */
  parameters?: string[]
  /** Options with the name of their value: `--stream` → `NAME`. */
  options?: Record<string, string>
  /** Of these, what may not be missing. */
  required?: readonly string[]
  /** Options without a value. */
  flags?: readonly string[]
  /** Short forms: `-f` → `--follow`. */
  aliases?: Record<string, string>
  /** The last parameter may be given several times. */
  repeats?: boolean
  /** Shown after the usage: what it answers, and an example. */
  details?: string
  about: string
  /** The exit code of a wrong usage, if 2 means something else. */
  usageCode?: number
  run(values: string[], options: Record<string, string>): Promise<number>
}

/** The usage of a command, without `sluice`. */
export const usageOf = ({
  name,
  parameters = [],
  options = {},
  required = [],
  flags = [],
  aliases = {},
}: Command): string => {
  const forms = (option: string) =>
    [...Object.keys(aliases).filter((alias) => aliases[alias] === option), option].join('|')
  return [
    name,
    ...parameters,
    ...flags.map((flag) => `[${forms(flag)}]`),
    ...Object.entries(options).map(([option, value]) => {
      const said = `${forms(option)} ${value}`
      return required.includes(option) ? said : `[${said}]`
    }),
  ].join(' ')
}

export const HELP = ['--help', '-h']

/** `values` is null if only the usage was requested. */
export async function readCommand(
  args: string[],
  commands: readonly Command[],
): Promise<{ command: Command; values: string[] | null; options: Record<string, string> }> {
  const command = commands.find(({ name }) => name === args.slice(0, wordsOf(name)).join(' '))
  if (!command) throw new UsageError(await describeUnknown(args, commands))
  const given = args.slice(wordsOf(command.name))
  const beforeDashes = given.includes('--') ? given.slice(0, given.indexOf('--')) : given
  if (beforeDashes.some((word) => HELP.includes(word))) return { command, values: null, options: {} }
  const { parameters = [] } = command
  const usage = `Usage: sluice ${usageOf(command)}`
  const { rest, options } = await takeOptions(given, command, usage)
  const required = parameters.filter((parameter) => !parameter.startsWith('['))
  if (rest.length < required.length)
    throw new UsageError(`sluice ${command.name} needs ${required.slice(rest.length).join(' and ')}. ${usage}`)
  const [extra] = rest.slice(parameters.length)
  if (extra !== undefined && !command.repeats)
    throw new UsageError(`sluice ${command.name} takes no argument '${extra}'. ${usage}`)
  return { command, values: rest, options }
}

/** `--name value` or `--name=value`, at any position; the rest is returned. After `--` nothing is an option. */
async function takeOptions(
  given: string[],
  command: Command,
  usage: string,
): Promise<{ rest: string[]; options: Record<string, string> }> {
  const options: Record<string, string> = {}
  const rest: string[] = []
  const words = [...given]
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    if (word === '--') {
      rest.push(...words)
      break
    }
    if (!word.startsWith('-')) {
      rest.push(word)
      continue
    }
    const full = fullName(command, word)
    if (command.flags?.includes(full)) {
      options[full] = 'yes'
      continue
    }
    const [given = '', ...inline] = word.split('=')
    const name = fullName(command, given)
    if (!Object.hasOwn(command.options ?? {}, name))
      throw new UsageError(`${await describeOption(command, word)} ${usage}`)
    const value = inline.length > 0 ? inline.join('=') : words.shift()
    if (value === undefined || value === '')
      throw new UsageError(`sluice ${command.name} ${name} needs ${command.options![name]}. ${usage}`)
    options[name] = value
  }
  return { rest, options }
}

const fullName = ({ aliases = {} }: Command, option: string): string =>
  Object.hasOwn(aliases, option) ? aliases[option]! : option

const wordsOf = (name: string) => name.split(' ').length

async function describeUnknown([first = '', second]: string[], commands: readonly Command[]): Promise<string> {
  if (first.startsWith('-')) return `${await describeOption(null, first)} See sluice --help.`
  const names = commands.map(({ name }) => name)
  const family = names.filter((name) => name.startsWith(`${first} `))
  if (family.length > 0 && second === undefined)
    return `sluice ${first} needs to know what to do: ${family.join(', ')}. See sluice --help.`
  const [given, known] = family.length > 0 ? [`${first} ${second}`, family] : [first, firstWords(names)]
  return `There is no command '${given}'. ${meaning(given, known) ?? `There is ${known.join(', ')}.`} See sluice --help.`
}

const firstWords = (names: string[]) => [...new Set(names.map((name) => name.split(' ')[0]!))]

/** People often try to pass settings as options. Their names are loaded only here: commands should start at once. */
async function describeOption(command: Command | null, given: string): Promise<string> {
  const { settings } = await import('../config/settings.ts')
  const here = ['sluice', command?.name].filter(Boolean).join(' ')
  const option = given.split('=')[0]!
  const setting = nearest(option.replace(/^-+/, '').toUpperCase().replaceAll('-', '_'), Object.keys(settings))
  const hint =
    meaning(
      option,
      command ? ['--help', ...(command.flags ?? []), ...Object.keys(command.options ?? {})] : ['--help', '--version'],
    ) ??
    (setting && `Settings are environment variables: ${setting}=… ${here}.`)
  return [`${here} has no option ${option}.`, hint].filter(Boolean).join(' ')
}

function meaning(word: string, known: readonly string[]): string | null {
  const near = nearest(word, known)
  return near === null ? null : `Did you mean ${near}?`
}
