/** Builds a request from its plan, the scope, and what paginator, cursor and partition put into it. */
import type { Json } from '../../json/json.ts'
import { ConnectorError } from '../contract.ts'
import { isFields, setAt } from './paths.ts'
import type { OutgoingRequest, RequestPlan } from './request-plan.ts'
import type { Fields, Injection, Scope } from './scope.ts'

export interface Injected {
  at: Injection
  value: Json
}

/** A request that can still be changed: authentication comes last. */
export interface Draft {
  method: string
  url: URL
  /** At another server than the one that the plan names: credentials do not go there. */
  foreign: boolean
  headers: Record<string, string>
  json: Json | undefined
  form: Fields | undefined
  text: string | undefined
  contentType: string | undefined
}

/** `page` is the address of the page, where the paginator gives one. */
export function draftRequest(plan: RequestPlan, scope: Scope, injected: readonly Injected[], page?: string): Draft {
  const own = parseUrl(plan.url(scope))
  const url = page === undefined ? own : pageUrl(page, own)
  const foreign = url.origin !== own.origin
  const draft: Draft = { method: plan.method, url, foreign, headers: {}, ...bodyOf(plan, scope) }
  // The address of a page usually has all parameters, but not always: those it lacks are added.
  for (const [name, value] of Object.entries(plan.params(scope)))
    if (page === undefined || !url.searchParams.has(name)) setParam(url, name, value)
  for (const [name, value] of Object.entries(plan.headers(scope))) setHeader(draft, name, value)
  for (const { at, value } of injected) inject(draft, at, value)
  if (foreign) dropCredentials(draft)
  return draft
}

/** An API key can be in a header of any name. */
function dropCredentials(draft: Draft): void {
  for (const name of Object.keys(draft.headers))
    if (!/^(accept|accept-language|content-type|user-agent)$/i.test(name)) delete draft.headers[name]
}

/** Only what goes over the wire. */
export function seal({ method, url, headers, json, form, text, contentType }: Draft): OutgoingRequest {
  const body =
    json !== undefined
      ? JSON.stringify(json)
      : form !== undefined
        ? writeForm(form)
        : text === undefined
          ? undefined
          : text
  const type =
    json !== undefined ? 'application/json' : form !== undefined ? 'application/x-www-form-urlencoded' : contentType
  const named = Object.keys(headers).some((name) => name.toLowerCase() === 'content-type')
  return {
    method,
    url,
    headers: body === undefined || type === undefined || named ? headers : { ...headers, 'content-type': type },
    body,
  }
}

function bodyOf({ body }: RequestPlan, scope: Scope): Pick<Draft, 'json' | 'form' | 'text' | 'contentType'> {
  const none = { json: undefined, form: undefined, text: undefined, contentType: undefined }
  if (body === null) return none
  // Injections change it, and the value may be a constant of the plan.
  if (body.kind === 'json') return { ...none, json: structuredCloneJson(body.value(scope)) }
  if (body.kind === 'form') return { ...none, form: { ...body.value(scope) } }
  return { ...none, text: body.value(scope), contentType: body.contentType ?? 'text/plain' }
}

/** Not structuredClone: numbers with many digits are raw JSON objects, which it does not know. */
function structuredCloneJson(value: Json): Json {
  if (Array.isArray(value)) return value.map(structuredCloneJson)
  if (!isFields(value) || Object.getPrototypeOf(value) === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, structuredCloneJson(inner)]))
}

export function inject(draft: Draft, { into, path }: Injection, value: Json): void {
  if (value === null || value === undefined) return
  if (into === 'param') setParam(draft.url, path[0]!, value)
  else if (into === 'header') setHeader(draft, path[0]!, value)
  else if (into === 'form') draft.form = { ...draft.form, [path[0]!]: value }
  else {
    if (!isFields(draft.json)) draft.json = {}
    setAt(draft.json, path, value)
  }
}

export function setHeader(draft: Draft, name: string, value: Json | undefined): void {
  if (value === null || value === undefined) return
  const text = writeText(value)
  if (/[^\t\x20-\x7e\x80-\xff]/.test(text))
    throw new ConnectorError('config', `The header ${name} has a character that no HTTP header can carry.`)
  for (const known of Object.keys(draft.headers))
    if (known.toLowerCase() === name.toLowerCase()) delete draft.headers[known]
  draft.headers[name] = text
}

function setParam(url: URL, name: string, value: Json | undefined): void {
  if (value === null || value === undefined) return
  url.searchParams.delete(name)
  for (const item of Array.isArray(value) ? value : [value]) url.searchParams.append(name, writeText(item))
}

const writeForm = (form: Fields): string => {
  const encoded = new URLSearchParams()
  for (const [name, value] of Object.entries(form))
    for (const item of Array.isArray(value) ? value : [value])
      if (item !== null && item !== undefined) encoded.append(name, writeText(item))
  return encoded.toString()
}

export function writeText(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function parseUrl(text: string): URL {
  const url = URL.parse(text)
  if (url) return url
  throw new ConnectorError('config', `'${text.slice(0, 200).replace(/\?.*/s, '')}' is not an address to request.`)
}

/** Behind a proxy, servers write http links to their own https address. */
function pageUrl(page: string, own: URL): URL {
  const url = URL.parse(page, own.href)
  if (!url) throw new ConnectorError('source', `${own.host} names a next page that is not an address.`)
  if (own.protocol === 'https:' && url.protocol === 'http:' && url.hostname === own.hostname) url.protocol = 'https:'
  return url
}
