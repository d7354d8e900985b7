/**
 * The console: the built files of `web/`, held in memory, and its page for every other address that a browser visits. A
 * page that asks for an address of the API by mistake still gets JSON.
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../config/config.ts'

const FOLDER = fileURLToPath(new URL('../../../web/dist', import.meta.url))

const TYPES: Record<string, string> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  woff2: 'font/woff2',
}

/** Nothing from another host, no inline script, no inline style sheet, no frame around it. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ')

interface ConsoleFile {
  bytes: Buffer
  /** The same, compressed by the build. */
  brotli: Buffer | null
  type: string
  etag: string
  /** Its name has a hash of its content, so it never changes. */
  immutable: boolean
}

export interface Console {
  /** False if this request is not the console's. */
  answer(request: FastifyRequest, reply: FastifyReply): boolean
}

export function isConsoleBuilt(): boolean {
  return existsSync(join(FOLDER, 'index.html'))
}

/** Null if the console was not built. */
export function openConsole(config: Pick<Config, 'SIGNUP' | 'IDP_ISSUER' | 'IDP_AUTHORIZE_URL'>): Console | null {
  const files = loadFiles()
  const page = files?.get('/index.html')
  if (!files || !page) return null
  const settings = { signup: config.SIGNUP, provider: Boolean(config.IDP_ISSUER ?? config.IDP_AUTHORIZE_URL) }
  const index = describePage(page, settings)
  files.delete('/index.html')
  return {
    answer(request, reply) {
      if (request.method !== 'GET' && request.method !== 'HEAD') return false
      const path = request.url.split('?')[0]!
      const file = files.get(path) ?? (isPageRequest(request, path) ? index : null)
      if (file === null) return false
      sendFile(file, request, reply)
      return true
    },
  }
}

/** Addresses under these prefixes never belong to the console. */
const OTHERS = /^\/(api|docs|healthz|readyz|metrics|schemas|mcp|assets)(\/|$)/

function isPageRequest(request: FastifyRequest, path: string): boolean {
  return !OTHERS.test(path) && /\btext\/html\b/.test(request.headers.accept ?? '')
}

function sendFile(file: ConsoleFile, request: FastifyRequest, reply: FastifyReply): void {
  reply
    .header('content-security-policy', POLICY)
    .header('cache-control', file.immutable ? 'public, max-age=31536000, immutable' : 'no-cache')
    .header('vary', 'Accept, Accept-Encoding')
    .header('etag', file.etag)
    .type(file.type)
  if (request.headers['if-none-match'] === file.etag) return void reply.code(304).send()
  const compressed = file.brotli !== null && /\bbr\b/.test(String(request.headers['accept-encoding'] ?? ''))
  if (compressed) reply.header('content-encoding', 'br')
  void reply.code(200).send(compressed ? file.brotli : file.bytes)
}

function loadFiles(): Map<string, ConsoleFile> | null {
  const files = new Map<string, ConsoleFile>()
  let entries: string[]
  try {
    entries = readdirSync(FOLDER, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(FOLDER, join(entry.parentPath, entry.name)))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
  const compressed = new Set(entries.filter((name) => name.endsWith('.br')))
  for (const name of entries) {
    const type = TYPES[name.slice(name.lastIndexOf('.') + 1)]
    if (type === undefined) continue
    const bytes = readFileSync(join(FOLDER, name))
    const brotli = compressed.has(`${name}.br`) ? readFileSync(join(FOLDER, `${name}.br`)) : null
    files.set(`/${name}`, { bytes, brotli, type, etag: etagOf(bytes), immutable: name.startsWith('assets/') })
  }
  return files
}

/** The page with what a stranger may know of this installation: the sign-in page depends on it. */
function describePage(page: ConsoleFile, settings: object): ConsoleFile {
  const content = JSON.stringify(settings).replaceAll('"', '&quot;')
  const bytes = Buffer.from(
    page.bytes.toString().replace('</head>', `<meta name="sluice" content="${content}" />\n  </head>`),
  )
  return { ...page, bytes, brotli: null, etag: etagOf(bytes) }
}

function etagOf(bytes: Buffer): string {
  return `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 24)}"`
}
