/** The commands of `sluice`. Each is loaded only when it is called. */
import { AppError, OperatorError } from '../errors.ts'

interface Command {
  usage: string
  about: string
  run(args: string[]): Promise<number>
}

const commands: Record<string, Command> = {
  start: {
    usage: 'start',
    about: 'run the whole platform: API, scheduler and worker',
    run: async () => (await import('./start.ts')).start(['api', 'scheduler', 'worker']),
  },
  api: { usage: 'api', about: 'run the API alone', run: async () => (await import('./start.ts')).start(['api']) },
  worker: {
    usage: 'worker',
    about: 'run a worker alone: it executes runs',
    run: async () => (await import('./start.ts')).start(['worker']),
  },
  scheduler: {
    usage: 'scheduler',
    about: 'run a scheduler alone: it starts due pipelines and tidies up',
    run: async () => (await import('./start.ts')).start(['scheduler']),
  },
  config: {
    usage: 'config',
    about: 'print the effective settings, secrets masked',
    run: async () => (await import('./config.ts')).printConfig(),
  },
  migrate: {
    usage: 'migrate',
    about: 'bring the database to the newest schema and stop',
    run: async () => (await import('./migrate.ts')).migrateDatabase(),
  },
  admin: {
    usage: 'admin reset-password EMAIL',
    about: 'set a new password, read from the terminal or standard input',
    run: async (args) => (await import('./admin.ts')).admin(args),
  },
  cell: {
    usage: 'cell run FILE',
    about: 'run a Python file sealed, without validation, and print what comes out',
    run: async (args) => (await import('./cell.ts')).cell(args),
  },
  keys: {
    usage: 'keys rotate',
    about: 'encrypt everything again with the first key of ENCRYPTION_KEY',
    run: async (args) => (await import('./keys.ts')).keys(args),
  },
}

const help =
  () => `Sluice moves data: pipelines from sources to destinations, with people, roles and schedules around them.

Usage: sluice <command>

${Object.values(commands)
  .map(({ usage, about }) => `  ${usage.padEnd(30)} ${about}`)
  .join('\n')}

  --help                         show this
  --version                      show the version

Settings are environment variables; docs/configuration.md lists them and \`sluice config\` shows those in force.`

export async function runCommand(args: string[]): Promise<number> {
  const [name, ...rest] = args
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') {
    console.log(help())
    return name === undefined ? 2 : 0
  }
  if (name === '--version' || name === '-v') {
    console.log((await import('../version.ts')).VERSION)
    return 0
  }
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (!command) {
    console.error(`There is no command '${name}'. It has ${Object.keys(commands).join(', ')}; see sluice --help.`)
    return 2
  }
  if (rest.includes('--help') || rest.includes('-h')) {
    console.log(`sluice ${command.usage}: ${command.about}`)
    return 0
  }
  try {
    return await command.run(rest)
  } catch (error) {
    const expected = error instanceof OperatorError || error instanceof AppError
    console.error(expected ? error.message : error)
    return 1
  }
}
