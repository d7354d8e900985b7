/** `sluice` as a client, with a config folder of its own; on pipes, or on a terminal. */
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after } from 'node:test'
import { type Outcome, type Started, startProgram } from './processes.ts'
import { environment, MAIN } from './service.ts'

export interface ClientHarness {
  /** Its working directory. */
  folder: string
  /** Where it keeps profiles. */
  profiles: string
  run(args: string[], env?: Record<string, string>, input?: string): Promise<Outcome>
  /** On a terminal of 80 columns, whose keys are pressed by writing to standard input. */
  onTerminal(args: string[], env?: Record<string, string>): Started
}

export function makeClient(always: Record<string, string> = {}): ClientHarness {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-client-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  const surroundings = (env: Record<string, string>) =>
    environment(folder, { XDG_CONFIG_HOME: path.join(folder, 'config'), TERM: 'xterm', ...always, ...env })
  return {
    folder,
    profiles: path.join(folder, 'config/sluice/profiles.json'),
    run: (args, env = {}, input) =>
      startProgram(process.execPath, [MAIN, ...args], { cwd: folder, env: surroundings(env) }, input).ended,
    onTerminal(args, env = {}) {
      const terminal = path.resolve(import.meta.dirname, '../cli/terminal.py')
      const started = startProgram(
        'python3',
        [terminal, process.execPath, MAIN, ...args],
        { cwd: folder, env: surroundings(env) },
        null,
      )
      after(() => started.child.kill('SIGTERM'))
      return started
    },
  }
}

/** Another server than ours, which may do what it likes. */
export async function startOther(listener: RequestListener): Promise<{ url: string; close(): void }> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
