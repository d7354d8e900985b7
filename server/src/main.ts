/**
 * Where `sluice` begins. What is loaded after this point is compiled once and kept, stripped of its types: a later start
 * takes half the time. The cache lies with the installation, not in a folder for temporary files, where somebody else
 * could prepare it; where that is not writable there is none.
 */
import { enableCompileCache } from 'node:module'
import path from 'node:path'

const { directory } = enableCompileCache(path.resolve(import.meta.dirname, '../../node_modules/.cache/sluice'))
// Processes that this one starts find it by this name.
if (directory) process.env.NODE_COMPILE_CACHE = directory

const { runCommand } = await import('./cli/commands.ts')
process.exitCode = await runCommand(process.argv.slice(2))
