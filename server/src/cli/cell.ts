/** `sluice cell run FILE`: runs a file in the cell and shows its output, for exploration and for tests. */
import { closeCells, configureCells } from '../cell/provider.ts'
import { runCellFile } from '../cell/run-file.ts'
import { cellSettings } from '../cell/settings.ts'
import { readJsonFile } from '../client/files.ts'
import { readConfig } from '../config/config.ts'
import { findAuthenticationFaults } from '../connectors/authentication/authentication.ts'
import type { Authentication } from '../connectors/contract.ts'
import { isObject } from '../connectors/settings/settings.ts'
import { createEgress } from '../egress/policy.ts'
import { AppError, UsageError } from '../errors.ts'
import type { Json } from '../json/json.ts'

export async function runInCell(file: string, options: Record<string, string> = {}): Promise<number> {
  const { '--config': settings, '--authentication': credentials } = options
  const given = {
    ...(settings !== undefined && { config: await readSettings(settings) }),
    ...(credentials !== undefined && { authentication: await readCredentials(credentials) }),
  }
  const config = readConfig()
  configureCells(cellSettings(config))
  const egress = createEgress({ allow: config.EGRESS_ALLOW, self: [{ host: config.HOST, port: config.PORT }] })
  try {
    return await runCellFile(file, { egress, ...given })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    throw new AppError('invalid_input', `There is no file ${file}`)
  } finally {
    await closeCells()
    await egress.close()
  }
}

async function readSettings(file: string): Promise<Record<string, Json>> {
  const settings = await readJsonFile(file)
  if (!isObject(settings)) throw new UsageError(`${file} must hold an object with the settings of the source`)
  return settings as Record<string, Json>
}

async function readCredentials(file: string): Promise<Authentication> {
  const authentication = await readJsonFile(file)
  const faults = findAuthenticationFaults(authentication, null, file)
  if (faults.length > 0) throw new UsageError(faults.join('\n'))
  return { params: {}, ...(authentication as object) } as Authentication
}
