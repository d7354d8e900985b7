/** An answer whose body is decoded and parsed only as far as somebody asks. */
import type { AnswerHead, WholeAnswer } from '../../egress/policy.ts'
import type { Json } from '../../json/json.ts'
import { MalformedJson } from '../../json/malformed.ts'
import { findSpan, parseSpan } from '../../json/walk.ts'
import { decodeBody } from './decode.ts'
import { parseLinks } from './links.ts'
import { lookUp } from './paths.ts'
import type { DecoderPlan } from './records-plan.ts'
import type { Answer } from './scope.ts'

export class HttpAnswer implements Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly url: string
  readonly bytes: Buffer
  readonly decoder: DecoderPlan
  /** As it came. */
  readonly whole: WholeAnswer
  /** Values of the body whose end is known, by their start: `find` jumps over them. */
  readonly known = new Map<number, number>()
  #body: Json | undefined
  #links: Answer['links'] | undefined

  constructor(whole: WholeAnswer, decoder: DecoderPlan) {
    const { status, headers, url, body } = whole
    this.whole = whole
    this.status = status
    this.headers = joinHeaders(headers)
    this.url = url
    this.bytes = body
    this.decoder = decoder
  }

  get links(): Answer['links'] {
    this.#links ??= parseLinks(this.headers.link ?? '', this.url)
    return this.#links
  }

  get text(): string {
    return this.bytes.toString('utf8')
  }

  get body(): Json {
    if (this.#body === undefined) {
      try {
        this.#body = decodeBody(this.bytes, this.decoder)
      } catch {
        this.#body = null
      }
    }
    return this.#body
  }

  find(path: readonly string[]): Json | undefined {
    const fromEnd = path.some((step) => step.startsWith('-'))
    if (this.#body !== undefined || this.decoder.kind !== 'json' || fromEnd) return lookUp(this.body, path)
    try {
      const span = findSpan(this.bytes, 0, path, this.known)
      return span === null ? undefined : parseSpan(this.bytes, span)
    } catch (error) {
      if (error instanceof MalformedJson) return undefined
      throw error
    }
  }
}

function joinHeaders(headers: AnswerHead['headers']): Record<string, string> {
  const joined: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) joined[name.toLowerCase()] = Array.isArray(value) ? value.join(', ') : value
  return joined
}
