import { createRequire } from 'node:module'

/** Undici, once something is sent with it: it takes longer to load than most commands run, and many processes never use it. */
export const loadUndici = (): typeof import('undici') => createRequire(import.meta.url)('undici')
