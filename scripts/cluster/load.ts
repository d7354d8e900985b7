/** The steady load: pipelines grow and are triggered through both API processes, whatever happens to these. */
import { setTimeout as delay } from 'node:timers/promises'
import { ACCOUNT } from '../../server/test/harness/service.ts'
import { configOf, type Flow, feed, grow, makeOrigins } from './flows.ts'
import type { Postgres } from './servers.ts'

const ANSWER_MS = 90_000
const TRIGGER_EVERY_MS = 700
const FEED_EVERY_MS = 300
const GROW_SCHEDULED_EVERY_MS = 20_000

interface Answer {
  status: number
  body: string
}

export interface Client {
  /** Status 0 where there was no answer. */
  send(method: string, path: string, body?: object): Promise<Answer>
  get(path: string): Promise<Record<string, unknown>>
}

export interface Load {
  /** Ids of runs whose trigger was answered with 201. */
  acknowledged: string[]
  /** Other answers, and how often. */
  refused: Map<string, number>
  /** The longest time that a request waited for its answer, whatever it was. */
  longestMs: number
  stop(): Promise<void>
}

/** Takes turns between the API processes. */
export async function signUp(urls: string[]): Promise<Client> {
  let token = ''
  let turn = 0
  const client: Client = {
    async send(method, path, body) {
      const url = urls[turn++ % urls.length]!
      try {
        const answer = await fetch(`${url}/api${path}`, {
          method,
          headers: {
            ...(token && { authorization: `Bearer ${token}` }),
            ...(body && { 'content-type': 'application/json' }),
          },
          ...(body && { body: JSON.stringify(body) }),
          signal: AbortSignal.timeout(ANSWER_MS),
        })
        return { status: answer.status, body: await answer.text() }
      } catch (error) {
        const { name, cause } = error as Error & { cause?: { code?: string } }
        return { status: 0, body: cause?.code ?? name }
      }
    },
    async get(path) {
      for (const deadline = Date.now() + 60_000; ; await delay(300)) {
        const { status, body } = await client.send('GET', path)
        if (status === 200) return JSON.parse(body) as Record<string, unknown>
        if (Date.now() > deadline) throw new Error(`GET ${path}: ${status} ${body}`)
      }
    },
  }
  for (const url of urls) await untilReady(url)
  const { status, body } = await client.send('POST', '/auth/register', JSON.parse(ACCOUNT) as object)
  if (status !== 201) throw new Error(`the first account was refused: ${status} ${body}`)
  token = (JSON.parse(body) as { access_token: string }).access_token
  return client
}

async function untilReady(url: string): Promise<void> {
  const isReady = () =>
    fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    )
  for (const deadline = Date.now() + 180_000; !(await isReady()); await delay(500))
    if (Date.now() > deadline) throw new Error(`${url} did not start`)
}

export async function createPipelines(client: Client, warehouse: Postgres, flows: Flow[]): Promise<void> {
  await makeOrigins(warehouse, flows)
  for (const flow of flows) {
    const body = {
      name: flow.name,
      config: configOf(flow, addressOf(warehouse)),
      ...(flow.scheduled && { schedule: '* * * * *' }),
    }
    const answer = await client.send('POST', '/pipelines', body)
    if (answer.status !== 201) throw new Error(`${flow.name}: ${answer.status} ${answer.body}`)
    flow.id = (JSON.parse(answer.body) as { id: string }).id
  }
}

const addressOf = ({ url, machine }: Postgres) => ({ host: machine.address, password: new URL(url).password })

/** A generated stream grows with the pipeline's settings. */
async function growPipeline(client: Client, warehouse: Postgres, flow: Flow): Promise<void> {
  const before = flow.records
  grow(flow)
  if (flow.records === before) return
  // If this is refused, the next change sets a higher number.
  await client.send('PUT', `/pipelines/${flow.id}`, { config: configOf(flow, addressOf(warehouse)) })
}

export function beginLoad(client: Client, warehouse: Postgres, flows: Flow[], random: () => number): Load {
  const byHand = flows.filter(({ scheduled }) => !scheduled)
  let going = true
  const load: Load = {
    acknowledged: [],
    refused: new Map(),
    longestMs: 0,
    async stop() {
      going = false
      await all
    },
  }
  const repeat = async (everyMs: number, act: () => Promise<void>) => {
    while (going) {
      await act()
      await delay(everyMs)
    }
  }
  const triggerOne = async () => {
    const flow = byHand[Math.floor(random() * byHand.length)]!
    await growPipeline(client, warehouse, flow)
    const began = Date.now()
    const { status, body } = await client.send('POST', `/pipelines/${flow.id}/run`)
    load.longestMs = Math.max(load.longestMs, Date.now() - began)
    if (status === 201) load.acknowledged.push((JSON.parse(body) as { id: string }).id)
    else {
      const what = status === 0 ? body : `${status} ${(JSON.parse(body) as { detail?: string }).detail}`
      load.refused.set(what, (load.refused.get(what) ?? 0) + 1)
    }
  }
  const all = Promise.all([
    repeat(TRIGGER_EVERY_MS, triggerOne),
    repeat(TRIGGER_EVERY_MS, triggerOne),
    repeat(FEED_EVERY_MS, () => feed(warehouse, flows).catch(() => {})),
    repeat(GROW_SCHEDULED_EVERY_MS, async () => {
      for (const flow of flows) if (flow.scheduled) await growPipeline(client, warehouse, flow)
    }),
  ])
  return load
}

/** Triggers a run, again and again until it is accepted. */
export async function triggerFor(client: Client, flow: Flow): Promise<string> {
  for (;;) {
    const { status, body } = await client.send('POST', `/pipelines/${flow.id}/run`)
    if (status === 201) return (JSON.parse(body) as { id: string }).id
    await delay(500)
  }
}

/** Sets the last number of records, and loads what is left. */
export async function finishFlow(client: Client, warehouse: Postgres, flow: Flow): Promise<string> {
  for (;;) {
    const { status } = await client.send('PUT', `/pipelines/${flow.id}`, {
      config: configOf(flow, addressOf(warehouse)),
      schedule: null,
    })
    if (status === 200) return triggerFor(client, flow)
    await delay(500)
  }
}
