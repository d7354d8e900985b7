/** Which modules of CELL_MODULES this machine does not have, found out once at start so that an operator hears of it. */
import { DEFAULT_CELL_LIMITS } from './limits.ts'
import { findPython } from './python.ts'
import type { CellSettings } from './settings.ts'
import { ZygoteProcess } from './zygote-process.ts'

/** A sentence for each. Where Python itself does not start there are none: the test of the sandbox says that. */
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
