/** What the command line says about itself. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { clientCommands } from '../../src/cli/client-commands.ts'
import { readCommand } from '../../src/cli/usage.ts'
import { makeClient } from '../harness/client.ts'
import { startProgram } from '../harness/processes.ts'

const client = makeClient()

test('every command of the client has --json, --profile, one line, and an example that it accepts', async () => {
  const { code, stdout } = await client.run(['--help'])
  assert.equal(code, 0)
  for (const { name, about, details, flags, options } of clientCommands) {
    assert.match(stdout, new RegExp(`^  ${name}\\b.* ${about.replaceAll(/[()]/g, '\\$&')}$`, 'm'))
    // Its output is a protocol.
    assert.ok(name === 'mcp' || flags?.includes('--json'), name)
    assert.ok(options?.['--profile'], name)
    assert.match(details ?? '', new RegExp(`Example:\\n  sluice ${name}`), name)
    for (const [, example] of details!.matchAll(/^ {2}sluice (.*?)(?: [<>] .*)?$/gm)) {
      const words = [...example!.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? '')
      assert.equal((await readCommand(words, clientCommands)).command.name, name)
    }
  }
  const help = await client.run(['run', '--help'])
  assert.equal(help.code, 0)
  assert.match(
    help.stdout,
    /^sluice run PIPELINE \[-f\|--follow\] \[--json\] \[--profile NAME\]: run a pipeline now\n\n.*Exit code[\s\S]*Example:/,
  )
})

test('no command, an unknown one and one that is not signed in each say what to do', async () => {
  const cases: [string[], RegExp][] = [
    [[], /^Sluice moves data: [\s\S]*Usage: sluice <command>[\s\S]* login URL/],
    [['pipelnes'], /^There is no command 'pipelnes'\. Did you mean pipelines\? See sluice --help\.$/],
    [['source'], /^sluice source needs to know what to do: source new, source preview, source push\. /],
    [['run'], /^sluice run needs PIPELINE\. Usage: sluice run PIPELINE /],
    [['run', 'a', 'b'], /^sluice run takes no argument 'b'\. /],
    [['runs', '--limit', '0'], /^--limit must be a whole number from 1 to 1000, not 0\.$/],
    [['logs', 'x', '--grep'], /^sluice logs --grep needs TEXT\. /],
    [['run', '--', '--help'], /^You are not signed in; run sluice login URL, or set SLUICE_URL and SLUICE_API_KEY\.$/],
    [['completion', 'csh'], /^There is no completion for 'csh'; there is bash, zsh, fish\.$/],
  ]
  for (const [args, expected] of cases) {
    const { code, stdout, stderr } = await client.run(args)
    assert.deepEqual([code, stdout], [2, ''], args.join(' '))
    assert.match(stderr.trim(), expected)
  }
})

test('bash completes commands, their second words and their options', async () => {
  const script = (await client.run(['completion', 'bash'])).stdout
  const ask = async (...words: string[]) => {
    const file = path.join(client.folder, 'complete.sh')
    const list = words.map((word) => `'${word}'`).join(' ')
    writeFileSync(
      file,
      `${script}\nCOMP_WORDS=(sluice ${list})\nCOMP_CWORD=${words.length}\n_sluice\nprintf '%s\\n' "\${COMPREPLY[@]}"`,
    )
    const { code, stdout, stderr } = await startProgram('bash', [file]).ended
    assert.deepEqual([code, stderr], [0, ''])
    return stdout.trim().split('\n')
  }
  assert.deepEqual(await ask('pi'), ['pipelines'])
  assert.deepEqual(await ask('source', 'p'), ['preview', 'push'])
  assert.deepEqual(await ask('source', 'preview', 'team.py', '--w'), ['--watch'])
  assert.deepEqual(await ask('logs', 'Orders', '--g'), ['--grep'])
  assert.deepEqual(await ask('logs', 'Ord'), [''])
})

test('zsh and fish get a script with every command', async (t) => {
  for (const shell of ['zsh', 'fish']) {
    const { code, stdout } = await client.run(['completion', shell])
    assert.equal(code, 0)
    for (const { name } of clientCommands) assert.ok(stdout.includes(name.split(' ').at(-1)!), `${shell}: ${name}`)
    const file = path.join(client.folder, `completion.${shell}`)
    writeFileSync(file, stdout)
    const checked = await startProgram(shell, ['-n', file]).ended.catch(() => null)
    if (checked === null) t.diagnostic(`${shell} is not installed, so its script is not parsed`)
    else assert.deepEqual([checked.code, checked.stderr], [0, ''])
  }
})
