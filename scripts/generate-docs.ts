/** `npm run docs`: writes every generated document, from an application on a temporary database. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { readConfig } from '../server/src/config/config.ts'
import { createApp } from '../server/src/http/app.ts'
import { createServices } from '../server/src/services.ts'
import { findSuperfluous, makeDocuments, root } from './documents.ts'

const folder = await mkdtemp(path.join(tmpdir(), 'sluice-docs-'))
const services = await createServices(readConfig({ DATA_DIR: folder, LOG_LEVEL: 'warn' }))
try {
  const app = await createApp(services)
  const documents = await makeDocuments(app, services.db)
  for (const [file, text] of documents) {
    await mkdir(path.join(root, path.dirname(file)), { recursive: true })
    await writeFile(path.join(root, file), text)
    console.log(`wrote ${file}`)
  }
  for (const file of await findSuperfluous(documents)) {
    await rm(path.join(root, file))
    console.log(`removed ${file}`)
  }
  await app.close()
} finally {
  await services.close()
  await rm(folder, { recursive: true, force: true })
}
