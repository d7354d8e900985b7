/** What the values of a plan may depend on. */
import type { Json } from '../../json/json.ts'

export type Fields = { [name: string]: Json }

/** What a value may depend on. Everything that does not exist at that moment is empty or null. */
export interface Scope {
  /** Of the partition: `{ "user_id": 7 }`. */
  readonly partition: Fields
  /** What else is known of the partition and takes no part in its identity: further fields of the parent record. */
  readonly extra: Fields
  /** Of the interval: `{ "start_time": "2024-01-01", "end_time": "2024-01-31" }`. */
  readonly interval: Fields
  /** The token of the page to request, or of the page that was answered. Null: the first page, without a token. */
  readonly token: Json
  /** The properties to request in this chunk (`ReadPlan.properties`). */
  readonly properties: readonly string[]
  /** The cursor's value of the last run for this partition, by the name of its field; null in a full refresh and in the first run. */
  readonly state: Fields | null
  /** The answer in question: for paginators, error filters, extractors and templates over them. */
  readonly answer: Answer | null
  /** The record in question: for filters and transformations. */
  readonly record: Fields | null
  /** The last record of the page, and how many records were extracted from it before any filter: for paginators. */
  readonly lastRecord: Fields | null
  readonly pageRecords: number
  /** The job of an asynchronous export: the bodies of its answers, and the target to download. */
  readonly job: { readonly created: Json; readonly polled: Json; readonly target: Json } | null
  /** When the run began; the same after it was interrupted and resumed. */
  readonly started: Date
}

export type Value<T = Json> = (scope: Scope) => T

/** The answer to a request, as templates, paginators and error filters see it. */
export interface Answer {
  readonly status: number
  /** Names in lower case; several values of one name are joined with a comma. */
  readonly headers: Readonly<Record<string, string>>
  /** The `Link` header by relation: `links.next.url`. */
  readonly links: Readonly<Record<string, { url: string; [parameter: string]: string }>>
  /** The decoded body, parsed when it is first asked for. Null if it is not what the decoder expects. */
  readonly body: Json
  /** One value of a JSON body, found without parsing the rest of it. Undefined if there is none. */
  find(path: readonly string[]): Json | undefined
  readonly text: string
  /** The address that answered, after redirects. */
  readonly url: string
}

/**
 * Where a value goes in a request. `path` is the name for params, headers and forms; in a JSON body it may lead into
 * objects.
 */
export interface Injection {
  into: 'param' | 'header' | 'form' | 'json'
  path: readonly string[]
}
