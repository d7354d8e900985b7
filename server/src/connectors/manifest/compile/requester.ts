/** HttpRequester: address, parameters, headers, body, credentials and what an answer means. */
import type { Json } from '../../../json/json.ts'
import type { BodyPlan, RequestPlan } from '../../http/request-plan.ts'
import type { Fields, Injection, Value } from '../../http/scope.ts'
import { type Component, type Dict, given, isDict, optionalComponent, optionalText, typeOf } from '../component.ts'
import { Unsupported } from '../problems.ts'
import { compileAuthenticator } from './authenticator.ts'
import type { Environment, Place } from './environment.ts'
import { compileErrorHandler } from './error-handler.ts'
import { compile, mapping, nested, optionalValue, type Site, TEXT_OR_LIST, textValue, written } from './templates.ts'

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']
/** Other methods are sent without a body, as Airbyte does. */
const WITH_BODY = ['POST', 'PUT', 'PATCH']

export interface CompiledRequest {
  request: RequestPlan
  /** The base of relative page addresses. */
  base: Value<string>
  /** The name of the parameter that takes the properties of a chunk, with the component that lists them. */
  properties: { component: Component; parameter: string | null } | null
}

export function compileRequester(requester: Component, environment: Environment, place: Place): CompiledRequest {
  if (requester.type !== 'HttpRequester') throw new Unsupported(`${requester.type} is not supported`)
  const method = (optionalText(requester, 'http_method') ?? 'GET').toUpperCase()
  if (!METHODS.includes(method)) throw new Unsupported(`HttpRequester.http_method ${method} is unknown`)
  const site: Site = { environment, owner: requester, known: 'request', also: place.extra }
  const { url, base } = compileUrl(requester, site)
  const parameters = compileParameters(requester, site)
  const authenticator = optionalComponent(requester, 'authenticator')
  return {
    base,
    properties: parameters.properties,
    request: {
      method,
      url,
      params: parameters.params,
      headers: compileFields(requester, 'request_headers', site),
      body: WITH_BODY.includes(method) ? compileBody(requester, site) : null,
      authentication: authenticator === null ? { kind: 'none' } : compileAuthenticator(authenticator, environment),
      errors: compileErrorHandler(optionalComponent(requester, 'error_handler'), environment),
      ...(given(requester, 'use_cache') === true && { cache: true }),
    },
  }
}

function compileUrl(requester: Component, site: Site): { url: Value<string>; base: Value<string> } {
  const read = (field: string): Value<string> | null => {
    const source = optionalText(requester, field)
    return source === null || source === '' ? null : textValue(source, site)
  }
  const base = read('url_base') ?? read('url')
  if (base === null) throw new Unsupported('HttpRequester has neither url nor url_base')
  const path = read('path')
  return {
    base,
    url: (scope) => joinUrl(base(scope).trim(), path === null ? '' : path(scope).trim().replace(/^\/+/, '')),
  }
}

/** Python's `urljoin` of a base that ends in a slash: an absolute address replaces it. */
export function joinUrl(base: string, path: string): string {
  if (path === '') return base
  if (/^[a-z][a-z\d+.-]*:\/\//i.test(path)) return path
  return base.endsWith('/') ? base + path : `${base}/${path}`
}

function compileParameters(
  requester: Component,
  site: Site,
): Pick<CompiledRequest, 'properties'> & { params: Value<Fields> } {
  const source = given(requester, 'request_parameters')
  const legacy = optionalComponent(requester, 'query_properties')
  if (!isDict(source)) {
    return {
      params: compileFields(requester, 'request_parameters', site, TEXT_OR_LIST),
      properties: legacy === null ? null : { component: legacy, parameter: null },
    }
  }
  const plain: Dict = {}
  let properties: CompiledRequest['properties'] = legacy === null ? null : { component: legacy, parameter: null }
  for (const [key, value] of Object.entries(source)) {
    if (isDict(value)) {
      if (value.type !== 'QueryProperties') throw new Unsupported(`the request parameter ${key} is not text`)
      properties = { component: value as Component, parameter: key }
    } else plain[key] = value
  }
  const params = mapping(plain, site, TEXT_OR_LIST)
  const parameter = properties?.parameter ?? null
  if (parameter === null) return { params: (scope) => written(params(scope)), properties }
  return { params: (scope) => ({ ...written(params(scope)), [parameter]: scope.properties.join(',') }), properties }
}

/** A mapping of templates, or one template that gives a mapping. */
function compileFields(owner: Component, field: string, site: Site, kinds?: typeof TEXT_OR_LIST): Value<Fields> {
  const source = given(owner, field)
  if (source === undefined) return () => ({})
  if (isDict(source)) {
    const fields = mapping(source, site, kinds)
    return (scope) => written(fields(scope))
  }
  if (typeof source !== 'string') throw new Unsupported(`${typeOf(owner)}.${field} is neither a mapping nor text`)
  const value = optionalValue(source, site)
  return (scope) => {
    const fields = value(scope)
    return isDict(fields) ? written(withoutNull(fields)) : {}
  }
}

function withoutNull(fields: Dict): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null))
}

function compileBody(requester: Component, site: Site): BodyPlan | null {
  const body = optionalComponent(requester, 'request_body')
  if (body !== null) return compileTypedBody(body, site)
  const json = given(requester, 'request_body_json')
  const data = given(requester, 'request_body_data')
  if (isFilled(json) && isFilled(data))
    throw new Unsupported('HttpRequester has both request_body_json and request_body_data')
  if (isFilled(json)) return jsonBody(json, site)
  return isFilled(data) ? dataBody(data, site) : null
}

function compileTypedBody(body: Component, site: Site): BodyPlan {
  const value = given(body, 'value')
  if (value === undefined) throw new Unsupported(`${body.type} has no value`)
  if (body.type === 'RequestBodyJsonObject' || body.type === 'RequestBodyGraphQL') return jsonBody(value, site)
  if (body.type === 'RequestBodyPlainText' || body.type === 'RequestBodyUrlEncodedForm') return dataBody(value, site)
  throw new Unsupported(`${body.type} is not supported`)
}

function isFilled(value: Json | undefined): value is Json {
  return value !== undefined && value !== '' && !(isDict(value) && Object.keys(value).length === 0)
}

function jsonBody(source: Json, site: Site): BodyPlan {
  const value = nested(source, site)
  return { kind: 'json', value: (scope) => value(scope) ?? {} }
}

/** A mapping is a form; text is sent as it is, unless it evaluates to a mapping. */
function dataBody(source: Json, site: Site): BodyPlan {
  if (isDict(source)) {
    const fields = mapping(source, site, TEXT_OR_LIST)
    return { kind: 'form', value: (scope) => written(fields(scope)) }
  }
  if (typeof source !== 'string') throw new Unsupported('request_body_data is neither a mapping nor text')
  const render = compile(source, site)
  return { kind: 'text', value: (scope) => render(scope) ?? '' }
}

/** A body that holds only what others inject is an empty one of that form. */
export function bodyFor(request: RequestPlan, injections: readonly Injection[]): RequestPlan {
  if (request.body !== null || !WITH_BODY.includes(request.method)) return request
  if (injections.some(({ into }) => into === 'json')) return { ...request, body: { kind: 'json', value: () => ({}) } }
  if (injections.some(({ into }) => into === 'form')) return { ...request, body: { kind: 'form', value: () => ({}) } }
  return request
}

/** Without a body nothing can be injected into it. */
export function injectable(request: Pick<RequestPlan, 'method'>, injection: Injection | null): Injection | null {
  if (injection === null || WITH_BODY.includes(request.method)) return injection
  return injection.into === 'json' || injection.into === 'form' ? null : injection
}
