/**
 * Builds the console as the last step of `npm ci`. Plain JavaScript, because it also runs under the Node that npm was started
 * with. Where Vite is not installed (`npm ci --omit=dev`) there is nothing to build with, and that is one line.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const vite = ['web/node_modules/vite', 'node_modules/vite'].map((path) => `${root}${path}/bin/vite.js`).find(existsSync)
if (vite === undefined) {
  console.log('The console is not built, because Vite is not installed; the API works without it.')
} else {
  const built = spawnSync(process.execPath, [vite, 'build', '--logLevel', 'warn'], {
    cwd: `${root}web`,
    stdio: 'inherit',
  })
  if (built.status !== 0) console.log('The console could not be built; the API works without it. See the lines above.')
}
