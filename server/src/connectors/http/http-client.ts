/**
 * Sends the requests of a plan: credentials, rate limits, and what its error policies say about an answer. One client
 * serves one read; its requests share tokens, limits and the wait that a server asks for.
 */
import { EgressFailed } from '../../egress/policy.ts'
import { ConnectorError, type SourceContext } from '../contract.ts'
import { explainRequest, explainStatus } from '../http-failures.ts'
import { HttpAnswer } from './answer.ts'
import { AnswerCache } from './answer-cache.ts'
import { Authenticator } from './authenticate.ts'
import { type Budget, createBudget } from './budget.ts'
import { backoffMs, type Decision, decide } from './decide.ts'
import { findMessage } from './error-text.ts'
import { type Draft, draftRequest, type Injected, seal } from './outgoing.ts'
import type { Plan } from './plan.ts'
import type { DecoderPlan } from './records-plan.ts'
import type { RequestPlan } from './request-plan.ts'
import type { Scope } from './scope.ts'
import { Slots } from './slots.ts'
import { describeMs, wait } from './wait.ts'

export interface Sending {
  request: RequestPlan
  scope: Scope
  decoder: DecoderPlan
  injected?: readonly Injected[]
  /** The address of the page, where the paginator gives one. */
  page?: string
}

/** `ignored`: the page counts as empty and as the last. `reset`: the series starts anew. */
export type Sent = HttpAnswer | 'ignored' | 'reset'

/** A server that asks for more is left alone: the run fails as rate limited, and is tried again later. */
const LONGEST_WAIT_MS = 15 * 60_000
/** All waits for the rate limit of one request. */
const MAX_LIMITED_MS = 3_600_000
const MAX_CONCURRENCY = 32
const USUAL_CONCURRENCY = 4

type ClientContext = Pick<SourceContext, 'fetch' | 'signal' | 'log'> & {
  /** A person is waiting: nothing is tried a second time. */
  hurried?: boolean
}

export class HttpClient {
  readonly signal: AbortSignal
  /** How many requests are under way at once. */
  readonly concurrency: number
  readonly #context: ClientContext
  readonly #budget: Budget
  readonly #authenticator: Authenticator
  readonly #slots: Slots
  readonly #cache = new AnswerCache()
  /** When requests to an origin may be sent again. */
  readonly #pauses = new Map<string, number>()

  constructor(context: ClientContext, plan: Pick<Plan, 'budget' | 'concurrency'>) {
    this.#context = context
    this.signal = context.signal
    this.#budget = createBudget(plan.budget)
    this.concurrency = Math.min(Math.max(1, plan.concurrency ?? USUAL_CONCURRENCY), MAX_CONCURRENCY)
    this.#slots = new Slots(this.concurrency)
    this.#authenticator = new Authenticator(context, (session, scope) =>
      this.#answer({ request: session.login, scope, decoder: { kind: 'json' } }),
    )
  }

  /** The answer, or what the plan wants instead of one. Throws a ConnectorError. */
  async send(sending: Sending): Promise<Sent> {
    const { request, scope } = sending
    const began = Date.now()
    let limitedMs = 0
    for (let attempt = 1; ; attempt++) {
      this.signal.throwIfAborted()
      const draft = draftRequest(request, scope, sending.injected ?? [], sending.page)
      const { host } = draft.url
      const key = request.cache && request.method === 'GET' ? JSON.stringify([draft.url.href, draft.headers]) : null
      const kept = key === null ? null : this.#cache.get(key)
      if (kept !== null) return new HttpAnswer(kept, sending.decoder)
      const { answer, error, token } = await this.#try(sending, draft)
      const answered = { ...scope, answer }
      const decision = decide(request.errors, answered)
      if (decision.action === 'success') {
        if (key !== null) this.#cache.put(key, answer!.whole)
        return answer!
      }
      if (decision.action === 'ignore') return 'ignored'
      if (decision.action === 'reset_pages') return 'reset'
      if (decision.action === 'fail') throw failure(decision, answer, host, error)
      const renews = decision.action === 'renew_token' && token !== null
      if (renews && this.#authenticator.renew(request.authentication, token)) continue
      const limited = decision.action === 'rate_limited'
      const { policy } = decision
      const spent = Date.now() - began
      if (this.#context.hurried || (!limited && (attempt > policy.maxRetries || spent > policy.maxTimeMs)))
        throw failure(decision, answer, host, error)
      const ms = backoffMs(policy, answered, attempt)
      limitedMs += limited ? ms : 0
      if (ms > LONGEST_WAIT_MS || limitedMs > MAX_LIMITED_MS) throw asksTooLong(host, ms, answer)
      this.#logWait(host, ms, answer, error)
      if (limited) this.#pauses.set(draft.url.origin, Date.now() + ms)
      else await wait(ms, this.signal)
    }
  }

  async #answer(sending: Sending): Promise<HttpAnswer> {
    const sent = await this.send(sending)
    if (typeof sent !== 'string') return sent
    throw new ConnectorError('auth', 'The login was answered with an error that the settings say to ignore.')
  }

  /** One request. A 401 for a token that was accepted before is tried once more with a new one. */
  async #try(sending: Sending, first: Draft) {
    const { request, scope, decoder } = sending
    let draft = first
    for (let renewed = false; ; renewed = true) {
      const own = !draft.foreign
      const token = own ? await this.#authenticator.apply(request.authentication, draft, scope) : null
      const { answer, error } = await this.#sendOnce(draft, own && request.authentication.kind === 'source', decoder)
      const refused = answer?.status === 401 && token !== null && !renewed
      if (!refused || !this.#authenticator.renew(request.authentication, token)) return { answer, error, token }
      draft = draftRequest(request, scope, sending.injected ?? [], sending.page)
    }
  }

  async #sendOnce(draft: Draft, authenticate: boolean, decoder: DecoderPlan) {
    const outgoing = seal(draft)
    await this.#waitForBudget(outgoing)
    try {
      const { method, headers, body } = outgoing
      const sent = await this.#slots.run(() =>
        this.#context.fetch(outgoing.url, {
          method,
          headers: { accept: 'application/json, */*;q=0.5', ...headers },
          ...(body === undefined ? {} : { body }),
          authenticate,
          signal: this.signal,
        }),
      )
      const answer = new HttpAnswer(sent, decoder)
      this.#budget.learn(outgoing, answer, Date.now())
      return { answer, error: null }
    } catch (error) {
      this.signal.throwIfAborted()
      if (error instanceof EgressFailed && error.transient) return { answer: null, error }
      throw explainRequest(error, 'source', `${draft.url.host} cannot be asked`)
    }
  }

  async #waitForBudget(outgoing: ReturnType<typeof seal>): Promise<void> {
    const { origin, host } = outgoing.url
    for (;;) {
      const now = Date.now()
      const paused = (this.#pauses.get(origin) ?? 0) - now
      const ms = paused > 0 ? paused : this.#budget.take(outgoing, now)
      if (ms <= 0) return
      if (paused <= 0 && ms > 1000)
        this.#context.log.info(`Waiting ${describeMs(ms)} to keep to the rate limit of ${host}.`)
      await wait(ms, this.signal)
    }
  }

  #logWait(host: string, ms: number, answer: HttpAnswer | null, error: Error | null): void {
    const what = answer === null ? (error?.message ?? 'there was no answer') : `${host} answered ${answer.status}`
    this.#context.log.info(`${what}; the request is sent again in ${describeMs(ms)}.`)
  }
}

function failure({ message, kind }: Decision, answer: HttpAnswer | null, host: string, error: Error | null): unknown {
  if (answer === null) return explainRequest(error, 'source', `${host} cannot be asked`)
  const usual = explainStatus(answer.status, whereOf(answer, host), 'source', 'check the path and its parameters')
  const said = message ?? findMessage(answer)
  const text = said === null ? usual.message : `${whereOf(answer, host)} answered ${answer.status}: ${said}`
  if (kind === 'config') return new ConnectorError('config', text)
  return new ConnectorError(kind === 'source' ? 'source' : usual.kind, text, {
    transient: kind === 'transient' || (kind === null && usual.transient),
  })
}

/** With the path, where the path may be what is wrong. */
function whereOf({ status, url }: HttpAnswer, host: string): string {
  const isAboutPath = status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status)
  return isAboutPath ? `${host}${(URL.parse(url)?.pathname ?? '').slice(0, 120)}` : host
}

function asksTooLong(host: string, ms: number, answer: HttpAnswer | null): ConnectorError {
  const what = answer === null ? 'does not answer' : `answered ${answer.status} and asks to wait ${describeMs(ms)}`
  return new ConnectorError('rate_limited', `${host} ${what}, longer than a run waits; it is tried again later.`)
}
