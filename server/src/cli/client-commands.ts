/** The commands that call a service. What they do is in client/, which loads neither the server nor a driver. */
import type { Command } from './usage.ts'

/** All of them print data with `--json`, and can call the service of another profile. */
const inService = (command: Command): Command => ({
  ...command,
  flags: [...(command.flags ?? []), '--json'],
  options: { ...command.options, '--profile': 'NAME' },
})

const exampleOf = (...lines: string[]): string => `Example:\n${lines.map((line) => `  ${line}`).join('\n')}`

const RUN = 'RUN is the id of a run, or the name of a pipeline: then its last run.'
const FOLLOWED = 'Exit code with --follow: 0 success, 1 failed or cancelled, 130 after Ctrl+C.'
const follow = { flags: ['--follow'], aliases: { '-f': '--follow' } }

const commands: Command[] = [
  {
    name: 'login',
    parameters: ['URL'],
    about: 'save the address of a service and an API key, typed or from standard input',
    details: exampleOf(
      'sluice login https://sluice.example.com',
      'sluice login --profile test http://127.0.0.1:8080 < key.txt',
    ),
    run: async ([url], options) => (await import('../client/login.ts')).login(url!, options),
  },
  {
    name: 'whoami',
    about: 'show who the key belongs to, and which service is called',
    details: exampleOf('sluice whoami', 'sluice whoami --profile test --json'),
    run: async (_, options) => (await import('../client/login.ts')).whoami(options),
  },
  {
    name: 'logout',
    about: 'forget the key of a profile',
    details: exampleOf('sluice logout', 'sluice logout --profile test'),
    run: async (_, options) => (await import('../client/login.ts')).logout(options),
  },
  {
    name: 'pipelines',
    options: { '--search': 'TEXT', '--status': 'STATUS', '--limit': 'N' },
    about: 'list pipelines, with their last run',
    details: exampleOf('sluice pipelines', 'sluice pipelines --status failed --json'),
    run: async (_, options) => (await import('../client/pipelines.ts')).listPipelines(options),
  },
  {
    name: 'runs',
    parameters: ['[PIPELINE]'],
    options: { '--status': 'STATUS', '--limit': 'N' },
    about: 'list the last runs, of all pipelines or of one',
    details: exampleOf('sluice runs', 'sluice runs Orders --status failed --limit 5'),
    run: async ([pipeline], options) => (await import('../client/runs.ts')).listRuns(pipeline, options),
  },
  {
    name: 'show',
    parameters: ['NAME|ID'],
    about: 'show a pipeline with its last runs, or a run',
    details: exampleOf('sluice show Orders'),
    run: async ([given], options) => (await import('../client/runs.ts')).show(given!, options),
  },
  {
    ...follow,
    name: 'run',
    parameters: ['PIPELINE'],
    about: 'run a pipeline now',
    details: `${FOLLOWED}\n\n${exampleOf('sluice run Orders --follow')}`,
    run: async ([pipeline], options) => (await import('../client/run.ts')).runPipeline(pipeline!, options),
  },
  {
    ...follow,
    name: 'logs',
    parameters: ['RUN'],
    options: { '--grep': 'TEXT', '--level': 'LEVEL', '--tail': 'N' },
    about: 'print the log of a run, or follow it',
    details: `${RUN}\n\n${exampleOf('sluice logs Orders -f', 'sluice logs Orders --level warn --grep "rate limit"')}`,
    run: async ([run], options) => (await import('../client/logs.ts')).showLogs(run!, options),
  },
  {
    name: 'output',
    parameters: ['RUN'],
    options: { '--output': 'FILE', '--sql': 'QUERY', '--limit': 'N' },
    aliases: { '-o': '--output' },
    about: 'download the output of a run, or query it with SQL',
    details: `${RUN} The output is the table \`output\`. With --sql, -o writes CSV; \`-o -\` is standard output.

${exampleOf('sluice output Orders -o orders.jsonl', "sluice output Orders --sql 'SELECT count(*) FROM output'")}`,
    run: async ([run], options) => (await import('../client/run-output.ts')).showOutput(run!, options),
  },
  {
    name: 'cancel',
    parameters: ['RUN'],
    about: 'cancel a waiting or running run',
    details: `RUN is the id of a run, or the name of a pipeline that has one unfinished run.\n\n${exampleOf('sluice cancel Orders')}`,
    run: async ([run], options) => (await import('../client/run.ts')).cancel(run!, options),
  },
  {
    ...follow,
    name: 'backfill',
    parameters: ['PIPELINE'],
    options: { '--from': 'VALUE', '--to': 'VALUE' },
    about: 'read a range of the cursor again, and upsert it',
    details: `The range begins with --from and ends right before --to. ${FOLLOWED}

${exampleOf('sluice backfill Orders --from 2026-01-01 --to 2026-02-01 --follow')}`,
    run: async ([pipeline], options) => (await import('../client/run.ts')).backfill(pipeline!, options),
  },
  {
    ...follow,
    name: 'replay',
    parameters: ['RUN'],
    options: { '--destination': 'FILE' },
    about: 'load the kept output of a run again, without asking the source',
    details: `${RUN} --destination is a JSON file with another destination, as a pipeline has it. ${FOLLOWED}

${exampleOf('sluice replay Orders --follow')}`,
    run: async ([run], options) => (await import('../client/run.ts')).replay(run!, options),
  },
  {
    name: 'source new',
    parameters: ['NAME'],
    about: 'write a custom source to begin with, as NAME.py',
    details: exampleOf('sluice source new team'),
    run: async ([name], options) => (await import('../client/source-new.ts')).newSource(name!, options),
  },
  {
    name: 'source preview',
    parameters: ['FILE'],
    flags: ['--watch'],
    options: { '--stream': 'STREAM', '--max-records': 'N', '--config': 'FILE', '--authentication': 'FILE' },
    about: 'check a custom source and read a few records with it, without saving it',
    details: `--watch does it again at every save.

${exampleOf('sluice source preview team.py --watch', 'sluice source preview team.py --stream users --config config.json')}`,
    run: async ([file], options) => (await import('../client/source.ts')).previewSource(file!, options),
  },
  {
    name: 'source push',
    parameters: ['FILE'],
    options: { '--name': 'NAME' },
    about: 'check a custom source and save it',
    details: exampleOf('sluice source push team.py --name "Our team"'),
    run: async ([file], options) => (await import('../client/source.ts')).pushSource(file!, options),
  },
  {
    name: 'manifest push',
    parameters: ['FILE'],
    options: { '--source-name': 'NAME', '--name': 'NAME' },
    about: 'check an Airbyte manifest and save it as a source',
    details: `The source is named after the file, or after its folder if that is manifest.yaml.

${exampleOf('sluice manifest push source-shop/manifest.yaml', 'sluice manifest push shop.yaml --name "Our shop"')}`,
    run: async ([file], options) => (await import('../client/manifest.ts')).pushManifest(file!, options),
  },
  {
    name: 'export',
    parameters: ['DIR'],
    flags: ['--prune'],
    options: { '--domain': 'NAME' },
    about: 'write the organization, or one domain, into a folder as files',
    details: `Secrets become references such as \${SHOP_PASSWORD}. Files that describe an object already are updated in their
place, with their comments and references. --prune removes files of what no longer exists.

${exampleOf('sluice export .', 'sluice export --domain Sales sales')}`,
    run: async ([folder], options) => (await import('../client/code/export.ts')).exportFolder(folder!, options),
  },
  {
    name: 'plan',
    parameters: ['DIR'],
    flags: ['--prune', '--markdown', '--no-schemas'],
    options: { '--domain': 'NAME', '--env-file': 'FILE' },
    about: 'show what sluice apply would change, and everything wrong with the files',
    details: `Sources that are read in another way are asked for their columns; --no-schemas does not ask them.
Exit code 0: nothing to do. 2: there are changes. 1: there are problems.

${exampleOf('sluice plan .', 'sluice plan --prune --markdown . > comment.md')}`,
    usageCode: 1,
    run: async ([folder], options) => (await import('../client/code/plan.ts')).planFolder(folder!, options),
  },
  {
    name: 'apply',
    parameters: ['DIR'],
    flags: ['--prune', '--yes', '--no-schemas'],
    options: { '--domain': 'NAME', '--env-file': 'FILE' },
    about: 'change the organization to what the files in a folder describe',
    details: `It shows the plan and asks; --yes does not ask. --prune deletes what no file describes.

${exampleOf('sluice apply .', 'sluice apply --prune --yes .')}`,
    run: async ([folder], options) => (await import('../client/code/plan.ts')).applyFolder(folder!, options),
  },
]

/** Its standard output is a protocol. */
const mcp: Command = {
  name: 'mcp',
  flags: ['--read-only'],
  options: { '--profile': 'NAME' },
  about: 'serve tools for agents, by the Model Context Protocol on standard input and output',
  details: `Its tools may do what the API key may do, and none of them deletes. --read-only leaves out those that run pipelines,
or ask other systems.

${exampleOf('sluice mcp --read-only', 'sluice mcp --profile test')}`,
  run: async (_, options) => (await import('../client/mcp.ts')).serveTools(options),
}

export const clientCommands = [...commands.map(inService), mcp]
