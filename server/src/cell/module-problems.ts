/** Checks CELL_MODULES once at start, so that the operator learns about modules that are not installed. */
import { DEFAULT_CELL_LIMITS } from './limits.ts'
import { findPython } from './python.ts'
import type { CellSettings } from './settings.ts'
import { ZygoteProcess } from './zygote-process.ts'

/** One sentence per problem. None if Python itself does not start: the sandbox self-test reports that. */
export async function describeMissingModules({ python, sandbox, modules }: CellSettings): Promise<string[]> {
  if (modules.length === 0) return []
  const { memory_mb, cpu_seconds } = DEFAULT_CELL_LIMITS
  try {
    const executable = await findPython(python)
    const settings = { memory_mb, cpu_seconds, sandbox, modules, preload: [], spares: 0 }
    const zygote = await ZygoteProcess.start(executable, settings)
    await zygote.close()
    return zygote.moduleProblems.map(({ name, problem }) => `CELL_MODULES: ${name} ${problem}`)
  } catch {
    return []
  }
}
