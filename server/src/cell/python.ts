/** Finds the Python for cells: the configured file, or the first suitable one of that name on PATH. */
import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const OLDEST = [3, 9] as const
const PROBE = 'import sys; print(sys.executable); print(*sys.version_info[:2])'

class PythonMissing extends Error {}

/**
 * The path of the real executable. A wrapper on PATH (pyenv's are shell scripts) would not work in the empty environment
 * that cells are started with, so each candidate is asked for its executable.
 */
export async function findPython(setting = 'python3'): Promise<string> {
  const tried: string[] = []
  for (const candidate of setting.includes('/') ? [setting] : await listCandidates(setting)) {
    try {
      const { stdout } = await run(candidate, ['-I', '-S', '-c', PROBE], { timeout: 20_000 })
      const [executable = '', version = ''] = stdout.trim().split('\n')
      const [major = 0, minor = 0] = version.split(' ').map(Number)
      if (major === OLDEST[0] && minor >= OLDEST[1]) return executable || candidate
      tried.push(`${candidate} is Python ${major}.${minor}`)
    } catch {
      tried.push(`${candidate} does not start`)
    }
  }
  const found = tried.length > 0 ? tried.join(', ') : `there is no ${setting} on PATH`
  throw new PythonMissing(`custom sources need Python ${OLDEST.join('.')} or newer: ${found}`)
}

async function listCandidates(name: string): Promise<string[]> {
  const candidates: string[] = []
  for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
    const candidate = path.join(folder, name)
    try {
      await access(candidate, constants.X_OK)
      candidates.push(candidate)
    } catch {
      // Not in this folder, or not executable.
    }
  }
  return candidates
}
