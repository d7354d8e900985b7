/**
 * The entry point of `sluice`. What is loaded after this point is compiled once and cached, stripped of its types: later
 * starts take half the time. The cache is in the installation, not in a temporary folder, where another user could plant
 * one; if the installation is not writable there is no cache.
 *
 * This file is not TypeScript, because it runs before there is a cache: the type stripper would have to be loaded just for
 * it, every time, and would stay in memory.
 */
import { enableCompileCache } from 'node:module'
import path from 'node:path'

// Host names are resolved on these threads, and a silent DNS server blocks one for half a minute: with Node's default of
// four, passwords and files would wait. Read when the first thread is needed, and inherited by child processes.
process.env.UV_THREADPOOL_SIZE ??= '12'
// Otherwise each of these threads keeps freed memory for itself. Read when a child process starts.
process.env.MALLOC_ARENA_MAX ??= '2'

const { directory } = enableCompileCache(path.resolve(import.meta.dirname, '../../node_modules/.cache/sluice'))
// Inherited by child processes.
if (directory) process.env.NODE_COMPILE_CACHE = directory

// The launcher in bin/ is a separate process for all that lives long, and where its Node is too old. The kernel ends this one with it where supported; this is the fallback.
process.once('disconnect', () => process.exit(1))
process.channel?.unref()

const { runCommand } = await import('./cli/commands.ts')
process.exitCode = await runCommand(process.argv.slice(2))
