/** What routes and hooks know of the application they are added to. */
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify'
import type { Access } from './authenticate.ts'
import type { EventStreams } from './event-streams.ts'

export type App = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

/** What the tests and the generated documents know of a route. */
interface RouteInfo {
  method: string
  url: string
  access: Access
}

declare module 'fastify' {
  interface FastifyInstance {
    routeList: RouteInfo[]
    eventStreams: EventStreams
  }
}
