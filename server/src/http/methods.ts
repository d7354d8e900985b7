/**
 * A method that a known path does not have is 405, and the header Allow says which ones it has; OPTIONS asks for just
 * that. The router keeps a tree for each method, so to it such a path is unknown, or it takes a fixed word for an id:
 * GET /api/pipelines/bulk would be a pipeline called "bulk".
 */
import { AppError } from '../errors.ts'
import type { App } from './app-type.ts'

export function answerOtherMethods(app: App): void {
  const fixed = new Map<string, Set<string>>()
  const patterns = new Map<string, { matcher: RegExp; methods: Set<string> }>()

  app.addHook('onRoute', (route) => {
    const { url } = route
    const methods = [route.method].flat()
    if (!/[:*]/.test(url)) fixed.set(url, new Set([...(fixed.get(url) ?? []), ...methods]))
    else {
      const known = patterns.get(url) ?? { matcher: matcherOf(url), methods: new Set<string>() }
      for (const method of methods) known.methods.add(method)
      patterns.set(url, known)
    }
  })

  const methodsAt = (path: string): string[] => {
    const methods =
      fixed.get(path) ?? [...patterns.values()].flatMap((p) => (p.matcher.test(path) ? [...p.methods] : []))
    return [...new Set(methods)].sort()
  }

  app.addHook('onRequest', (request, reply, done) => {
    if (!request.is404 && !request.routeOptions.url?.includes(':')) return done()
    const path = request.url.split('?', 1)[0]!
    const methods = request.is404 || fixed.has(path) ? methodsAt(path) : []
    if (methods.length === 0 || methods.includes(request.method)) return done()
    const Allow = [...methods, 'OPTIONS'].join(', ')
    if (request.method === 'OPTIONS') return void reply.code(204).header('Allow', Allow).send()
    const detail = `This address does not have the method ${request.method}; it has ${methods.join(', ')}`
    done(new AppError('method_not_allowed', detail, { Allow }))
  })
}

const matcherOf = (url: string): RegExp =>
  new RegExp(
    `^${url
      .split('/')
      .map((part) => (part.startsWith(':') ? '[^/]+' : part === '*' ? '.*' : RegExp.escape(part)))
      .join('/')}$`,
  )
