/** The commands of `sluice`. Each is loaded only when it is called. */
import { isExpected } from '../errors.ts'
import { type Command, readCommand, UsageError, usageOf } from './usage.ts'

const commands: Command[] = [
  {
    name: 'start',
    about: 'run the whole platform: API, scheduler and worker',
    run: async () => (await import('./start.ts')).start(),
  },
  { name: 'api', about: 'run the API alone', run: async () => (await import('./roles.ts')).runRole('api') },
  {
    name: 'worker',
    about: 'run a worker alone: it executes runs',
    run: async () => (await import('./roles.ts')).runRole('worker'),
  },
  {
    name: 'scheduler',
    about: 'run a scheduler alone: it starts due pipelines and cleans up',
    run: async () => (await import('./roles.ts')).runRole('scheduler'),
  },
  {
    name: 'config',
    about: 'print the effective settings, secrets masked',
    run: async () => (await import('./config.ts')).printConfig(),
  },
  {
    name: 'migrate',
    about: 'migrate the database to the newest schema and exit',
    run: async () => (await import('./migrate.ts')).migrateDatabase(),
  },
  {
    name: 'restored',
    about: 'run once after the database was restored from a backup, so that runs can load again',
    run: async () => (await import('./restored.ts')).tellRestored(),
  },
  {
    name: 'admin reset-password',
    parameters: ['EMAIL'],
    about: 'set a new password, read from the terminal or standard input',
    run: async ([email]) => (await import('./admin.ts')).resetPasswordOf(email!),
  },
  {
    name: 'cell run',
    parameters: ['FILE'],
    options: { '--config': 'FILE', '--authentication': 'FILE' },
    about: 'run a Python file in the sandbox of this machine, without a service, and print its records',
    run: async ([file], options) => (await import('./cell.ts')).runInCell(file!, options),
  },
  {
    name: 'source push',
    parameters: ['FILE'],
    options: { '--name': 'NAME' },
    about: 'check a custom source and save it in the service of SLUICE_URL',
    run: async ([file], options) => (await import('./source.ts')).pushSource(file!, options),
  },
  {
    name: 'source preview',
    parameters: ['FILE'],
    options: { '--stream': 'STREAM', '--max-records': 'N', '--config': 'FILE', '--authentication': 'FILE' },
    about: 'read a few records with a custom source, in the service of SLUICE_URL, without saving it',
    run: async ([file], options) => (await import('./source.ts')).previewSource(file!, options),
  },
  {
    name: 'keys rotate',
    about: 're-encrypt everything with the first key of ENCRYPTION_KEY',
    run: async () => (await import('./keys.ts')).rotate(),
  },
]

/** Without its options, which `--help` after the command shows. */
const inShort = ({ options, ...command }: Command) => usageOf(command)

const help =
  () => `Sluice moves data: pipelines from sources to destinations, with people, roles and schedules around them.

Usage: sluice <command>

${commands.map((command) => `  ${inShort(command).padEnd(30)} ${command.about}`).join('\n')}

  --help                         show this
  --version                      show the version

Settings are environment variables; docs/configuration.md lists them and \`sluice config\` shows the effective ones.`

const USAGE_ERROR = 2

export async function runCommand(args: string[]): Promise<number> {
  const [first] = args
  if (first === undefined) {
    console.error(help())
    return USAGE_ERROR
  }
  if (first === 'help' || first === '--help' || first === '-h') {
    console.log(help())
    return 0
  }
  if (first === '--version' || first === '-v') {
    console.log((await import('../version.ts')).VERSION)
    return 0
  }
  try {
    const { command, values, options } = readCommand(args, commands)
    if (values === null) {
      console.log(`sluice ${usageOf(command)}: ${command.about}`)
      return 0
    }
    return await command.run(values, options)
  } catch (error) {
    console.error(isExpected(error) ? error.message : error)
    return error instanceof UsageError ? USAGE_ERROR : 1
  }
}
