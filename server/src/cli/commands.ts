/** The commands of `sluice`. Each is loaded only when it is called. */
import { cleanBlock } from '../client/clean.ts'
import { Interrupted, isExpected, UsageError } from '../errors.ts'
import { clientCommands } from './client-commands.ts'
import { type Command, HELP, readCommand, usageOf } from './usage.ts'

const MANIFEST_CHECK = `Exit code 0: every manifest runs whole. 1: one runs in part, not at all, or cannot be read.

Example:
  sluice manifest check manifest.yaml
  sluice manifest check --json connectors/*/manifest.yaml`

const WORKER_ONCE = `--once takes one run, sees it through and exits; if there is none, it exits at once, or after ten
seconds while others of its class are executed. The exit code is 0 in all cases, also if the run failed: its status and log say so. --class takes a run that asked for a pod of that class, which
must be one of POD_CLASSES; without it, one that does not ask for a pod.

Example:
  sluice worker --once --class large`

const BACKUP = `Every table at one moment, then the blobs that its rows name. An interrupted backup has no manifest.json and is
continued by running it again. Keys are not in it.

Example:
  sluice backup /backups/$(date +%F)
  sluice backup s3://bucket/sluice/$(date +%F)`

const RESTORE = `Into a database without tables or rows, and with the ENCRYPTION_KEY of the installation that was backed up
(--without-keys: credentials have to be entered again). All rows are one transaction. It ends with what sluice restored does.

Example:
  sluice restore /backups/2026-01-31`

const serverCommands: Command[] = [
  {
    name: 'start',
    about: 'run the whole platform: API, scheduler and worker',
    run: async () => (await import('./start.ts')).start(),
  },
  { name: 'api', about: 'run the API alone', run: async () => (await import('./roles.ts')).runRole('api') },
  {
    name: 'worker',
    flags: ['--once'],
    options: { '--class': 'CLASS' },
    about: 'run a worker alone: it executes runs',
    details: WORKER_ONCE,
    run: async (_, options) => (await import('./worker.ts')).runWorker(options),
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
    name: 'backup',
    parameters: ['DEST'],
    about: 'copy the database and its blobs to a folder or s3://bucket/prefix, while the service runs',
    details: BACKUP,
    run: async ([destination]) => (await import('./backup.ts')).backUp(destination!),
  },
  {
    name: 'restore',
    parameters: ['SRC'],
    flags: ['--without-keys'],
    about: 'restore a backup into an empty database; no process may be running',
    details: RESTORE,
    run: async ([source], options) => (await import('./backup.ts')).restore(source!, options),
  },
  {
    name: 'restored',
    about: 'run once after the database was restored from a backup, so that runs can load again',
    run: async () => (await import('./restored.ts')).tellRestored(),
  },
  {
    name: 'doctor',
    flags: ['--json'],
    about: 'look at database, queue, blobs, sandbox, egress, keys, disk, clock and versions, and say what to do',
    details: 'It changes nothing. Exit code 0: no problem, though perhaps warnings. 1: a problem.',
    run: async (_, options) => (await import('./doctor.ts')).examine(options),
  },
  {
    name: 'admin organizations',
    flags: ['--json'],
    about: 'list the organizations with their owners',
    run: async (_, options) => (await import('./admin.ts')).listOrganizations(options),
  },
  {
    name: 'admin users',
    options: { '--organization': 'SLUG' },
    flags: ['--json'],
    about: 'list the accounts, or those of one organization',
    run: async (_, options) => (await import('./admin.ts')).listUsers(options),
  },
  {
    name: 'admin create-owner',
    parameters: ['EMAIL'],
    options: { '--organization': 'NAME', '--name': 'NAME' },
    required: ['--organization'],
    about: 'create an organization with its owner, whose password is read from the terminal or standard input',
    run: async ([email], options) => (await import('./admin.ts')).createOwner(email!, options),
  },
  {
    name: 'admin revoke',
    parameters: ['EMAIL'],
    about: 'sign an account out everywhere and revoke its API keys; the account and its password stay',
    run: async ([email]) => (await import('./admin.ts')).revokeAccessOf(email!),
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
    name: 'manifest check',
    parameters: ['FILE…'],
    repeats: true,
    flags: ['--json'],
    about: 'say which streams of Airbyte manifests run here, and why others do not',
    details: MANIFEST_CHECK,
    run: async (files, options) => (await import('./manifest.ts')).checkManifests(files, options),
  },
  {
    name: 'keys rotate',
    about: 're-encrypt everything with the first key of ENCRYPTION_KEY',
    run: async () => (await import('./keys.ts')).rotate(),
  },
]

const COMPLETION = `Example:
  eval "$(sluice completion bash)"         in ~/.bashrc
  eval "$(sluice completion zsh)"          in ~/.zshrc, after compinit
  sluice completion fish | source          in ~/.config/fish/config.fish`

/** Both kinds: it needs neither a service nor the machine of one. */
const completion: Command = {
  name: 'completion',
  parameters: ['SHELL'],
  about: 'print a script that completes commands in bash, zsh or fish',
  details: COMPLETION,
  run: async ([shell]) => (await import('./completion.ts')).printCompletion(shell!, commands),
}

const commands: Command[] = [...clientCommands, completion, ...serverCommands]

/** Without its options, which `--help` after the command shows. */
const inShort = ({ options, flags, ...command }: Command) => usageOf(command)
const listOf = (group: Command[]) =>
  group.map((command) => `  ${inShort(command).padEnd(30)} ${command.about}`).join('\n')

const help =
  () => `Sluice moves data: pipelines from sources to destinations, with people, roles and schedules around them.

Usage: sluice <command>

With a service, which \`sluice login\` or SLUICE_URL and SLUICE_API_KEY name:
${listOf([...clientCommands, completion])}

On the machine of the service:
${listOf(serverCommands)}

  --help                         show this; after a command: its options and an example
  --version                      show the version

Settings are environment variables; docs/configuration.md lists them and \`sluice config\` shows the effective ones.`

const USAGE_ERROR = 2
/** As shells report a program that Ctrl+C has ended. */
const INTERRUPTED = 130

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
  const family = commands.filter(({ name }) => name.startsWith(`${first} `))
  if (family.length > 0 && HELP.includes(args[1]!)) {
    console.log(`Usage: sluice ${first} <command>\n\n${listOf(family)}`)
    return 0
  }
  try {
    const { command, values, options } = await readCommand(args, commands)
    if (values === null) {
      console.log([`sluice ${usageOf(command)}: ${command.about}`, command.details].filter(Boolean).join('\n\n'))
      return 0
    }
    return await command.run(values, options)
  } catch (error) {
    if (error instanceof Interrupted) return INTERRUPTED
    // A message may repeat what a service has sent.
    console.error(isExpected(error) ? cleanBlock(error.message) : error)
    const { usageCode = USAGE_ERROR } = commands.find(({ name }) => name === first) ?? {}
    return error instanceof UsageError ? usageCode : 1
  }
}
