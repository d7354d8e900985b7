/** What the first page of the console shows: how things went, and what comes next. */

import { readRunDays } from '../../runs/days.ts'
import { readTimeline } from '../../runs/timeline.ts'
import { Type } from '../../schema.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { problems } from '../schemas/common.ts'
import { DaysQuery, RunDay, RunTimeline, TimelineQuery } from '../schemas/overview.ts'

const tags = ['Runs']
const read = { access: 'pipelines:read' } as const
const refusals = problems('invalid_input', 'unauthenticated', 'forbidden')

export function overviewRoutes(app: App, { db }: Services): void {
  app.get(
    '/api/runs/timeline',
    {
      config: read,
      schema: {
        tags,
        summary: 'The last and the next 24 hours',
        description:
          'Pipelines with their runs and the times of their schedules: those whose last run failed come first, then those that ran last, then those that run next.',
        querystring: TimelineQuery,
        response: { 200: RunTimeline, ...refusals },
      },
    },
    (request) => readTimeline(db, actorOf(request), request.query.pipelines),
  )

  app.get(
    '/api/runs/days',
    {
      config: read,
      schema: {
        tags,
        summary: 'Runs and records per day',
        description: 'The last days, today last. A day that is over may be up to ten minutes old.',
        querystring: DaysQuery,
        response: { 200: Type.Array(RunDay), ...refusals },
      },
    },
    (request) => readRunDays(db, actorOf(request), request.query),
  )
}
