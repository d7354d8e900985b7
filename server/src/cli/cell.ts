/** `sluice cell run FILE`: runs a file in the cell and shows its output, for exploration and for tests. */
import { closeCells, configureCells } from '../cell/provider.ts'
import { runCellFile } from '../cell/run-file.ts'
import { cellSettings } from '../cell/settings.ts'
import { readConfig } from '../config/config.ts'
import { createEgress } from '../egress/policy.ts'
import { AppError } from '../errors.ts'

export async function runInCell(file: string): Promise<number> {
  const config = readConfig()
  configureCells(cellSettings(config))
  const egress = createEgress({ allow: config.EGRESS_ALLOW, self: [{ host: config.HOST, port: config.PORT }] })
  try {
    return await runCellFile(file, { egress })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    throw new AppError('invalid_input', `There is no file ${file}`)
  } finally {
    await closeCells()
    await egress.close()
  }
}
