/**
 * Where `sluice` begins. What is loaded after this point is compiled once and kept, stripped of its types: a later start
 * takes half the time. The cache lies with the installation, not in a folder for temporary files, where somebody else
 * could prepare it; where that is not writable there is none.
 *
 * This file is not TypeScript, because it runs before there is a cache: what strips the types would have to be loaded for
 * it alone, every time, and stays in memory.
 */
import { enableCompileCache } from 'node:module'
import path from 'node:path'

// Names of tenants' servers are looked up on these threads, and a silent DNS server holds one for half a minute: with
// Node's four, passwords and files would wait. Read when the first of them is needed; processes that this one starts have it too.
process.env.UV_THREADPOOL_SIZE ??= '12'

const { directory } = enableCompileCache(path.resolve(import.meta.dirname, '../../node_modules/.cache/sluice'))
// Processes that this one starts find it by this name.
if (directory) process.env.NODE_COMPILE_CACHE = directory

// The launcher in bin/ is a process of its own. The kernel ends us with it where it can; this is for where it cannot.
process.once('disconnect', () => process.exit(1))
process.channel?.unref()

const { runCommand } = await import('./cli/commands.ts')
process.exitCode = await runCommand(process.argv.slice(2))
