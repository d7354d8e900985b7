/**
 * `npm run check:python`: ruff and mypy over python/, if they are installed; otherwise one line says how to install
 * them.
 */
import { spawnSync } from 'node:child_process'
import path from 'node:path'

const folder = path.resolve(import.meta.dirname, '../python')
const python = process.env.PYTHON ?? 'python3'

/** As a module of the current Python, otherwise as a command on the path. */
function findTool(name: string): string[] | null {
  const candidates = [[python, '-m', name], [name]]
  return candidates.find(([command = '', ...args]) => spawnSync(command, [...args, '--version']).status === 0) ?? null
}

let failed = false
for (const [name, ...args] of [
  ['ruff', 'check', '--no-cache', '.'],
  ['mypy', '--no-incremental', '--cache-dir', '/dev/null'],
] as const) {
  const tool = findTool(name)
  if (tool === null) {
    console.log(`${name} is not installed, so python/ was not checked with it: pip install ${name}`)
    continue
  }
  const [command = '', ...rest] = tool
  const { status } = spawnSync(command, [...rest, ...args], { cwd: folder, stdio: 'inherit' })
  failed ||= status !== 0
}
process.exitCode = failed ? 1 : 0
