/** The settings, in the shape of dlt's REST API source. What fits the schema but not together is found when it is compiled. */
import { type Static, type TSchema, Type } from '../../schema.ts'
import { type Cases, identity, secret } from '../contract.ts'

const closed = { additionalProperties: false }
const text = (description: string) => Type.Optional(Type.String({ minLength: 1, maxLength: 4000, description }))
const path = (description: string) =>
  Type.Optional(Type.Union([Type.String({ minLength: 1, maxLength: 500, description }), Type.Null()]))
const flag = (description: string) => Type.Optional(Type.Boolean({ description }))
const count = (description: string) =>
  Type.Optional(Type.Union([Type.Integer({ minimum: 0, description }), Type.Null()]))
/** An object with any names. */
const record = <T extends TSchema>(schema: T, options: { description?: string } = {}) =>
  Type.Unsafe<Record<string, Static<T>>>(Type.Object({}, { ...options, additionalProperties: schema }))
const scalar = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()])

/** Which settings belong to which type, as their descriptions begin: `cursor, header_cursor: …`. */
function casesOf(properties: Record<string, TSchema>, types: readonly string[]): Cases['fields'] {
  const owners = Object.entries(properties).map(([name, schema]) => {
    const { description = '', anyOf = [] } = schema as { description?: string; anyOf?: { description?: string }[] }
    const [, before = ''] = /^([a-z0-9_, ]+): /.exec(description || (anyOf[0]?.description ?? '')) ?? []
    return { name, types: before.split(', ') }
  })
  const fieldsOf = (type: string) => owners.filter((owner) => owner.types.includes(type)).map(({ name }) => name)
  return Object.fromEntries(types.map((type) => [type, fieldsOf(type)]))
}

/** One form for all types; which field belongs to which type is checked in paginators.ts. */
const paginatorSettings = {
  type: Type.String({
    description: 'json_link, header_link, header_cursor, cursor, offset, page_number, single_page or auto.',
  }),
  next_url_path: path('json_link: the path of the next address in the body. Default: next.'),
  links_next_key: text('header_link: the relation in the Link header. Default: next.'),
  cursor_key: text('header_cursor: the header that holds the cursor. Default: next.'),
  cursor_path: path('cursor: the path of the cursor in the body. Default: cursors.next.'),
  cursor_param: text('cursor, header_cursor: the parameter that carries the cursor. Default: cursor.'),
  cursor_body_path: text('cursor: the path in the JSON body of the request that carries the cursor.'),
  limit: Type.Optional(Type.Integer({ minimum: 1, description: 'offset: the number of records in a page.' })),
  offset: count('offset: the first offset. Default: 0.'),
  offset_param: text('offset: the parameter for the offset. Default: offset.'),
  offset_body_path: text('offset: the path in the JSON body of the request for the offset.'),
  limit_param: text('offset: the parameter for the limit. Default: limit.'),
  limit_body_path: text('offset: the path in the JSON body of the request for the limit.'),
  maximum_offset: count('offset: no page from this offset on is read.'),
  base_page: count('page_number: the number that the API gives its first page. Default: 0.'),
  page: count('page_number: the page to begin with. Default: base_page.'),
  page_param: text('page_number: the parameter for the number. Default: page.'),
  page_body_path: text('page_number: the path in the JSON body of the request for the number.'),
  maximum_page: count('page_number: no page from this number on is read.'),
  total_path: path(
    'offset, page_number: the path of the total number of records, or of pages, in the body. Default: total.',
  ),
  has_more_path: path('cursor, offset, page_number: the path of true or false in the body.'),
  stop_after_empty_page: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
}
const PAGINATORS = [
  'json_link',
  'header_link',
  'header_cursor',
  'cursor',
  'offset',
  'page_number',
  'single_page',
  'auto',
]
const paginatorObject = Type.Object(paginatorSettings, {
  ...closed,
  cases: { by: 'type', fields: casesOf(paginatorSettings, PAGINATORS) } satisfies Cases,
})
const paginator = Type.Optional(
  Type.Union([Type.String({ description: 'The type of the paginator.' }), paginatorObject, Type.Null()]),
)

const authSettings = {
  type: Type.Optional(
    Type.String({ description: 'bearer (the default), api_key, http_basic or oauth2_client_credentials.' }),
  ),
  token: Type.Optional(secret(Type.String({ minLength: 1, description: 'bearer: the token.' }))),
  api_key: Type.Optional(secret(Type.String({ minLength: 1, description: 'api_key: the key.' }))),
  name: text('api_key: the name of the header or parameter. Default: Authorization.'),
  location: text('api_key: header (the default), query, param or cookie.'),
  username: text('http_basic: the user.'),
  password: Type.Optional(secret(Type.String({ description: 'http_basic: the password.' }))),
  access_token_url: text('oauth2_client_credentials: the address that issues tokens.'),
  client_id: text('oauth2_client_credentials: the client.'),
  client_secret: Type.Optional(
    secret(Type.String({ minLength: 1, description: 'oauth2_client_credentials: its secret.' })),
  ),
  access_token_request_data: Type.Optional(
    secret(
      record(scalar, {
        description: 'oauth2_client_credentials: more fields of the token request, such as scope.',
      }),
    ),
  ),
  default_token_expiration: Type.Optional(
    Type.Integer({
      minimum: 1,
      description: 'oauth2_client_credentials: seconds, where the answer does not say. Default: 3600.',
    }),
  ),
}
const AUTHS = ['bearer', 'api_key', 'http_basic', 'oauth2_client_credentials']
const auth = Type.Object(authSettings, {
  ...closed,
  cases: { by: 'type', otherwise: 'bearer', fields: casesOf(authSettings, AUTHS) } satisfies Cases,
})

const incrementalFields = {
  cursor_path: Type.String({ minLength: 1, maxLength: 500, description: 'The path of the cursor in a record.' }),
  initial_value: Type.Optional(scalar),
  convert: text('How the value is sent: epoch_seconds, epoch_milliseconds, iso, date, integer or string.'),
  lag: Type.Optional(
    Type.Number({
      minimum: 0,
      description: 'How much of the past is read again: seconds of a time, days of a date, units of a number.',
    }),
  ),
  row_order: Type.Optional(
    Type.Union([Type.Literal('asc'), Type.Literal('desc')], {
      description: 'desc: pages are read until a record is older than the last run.',
    }),
  ),
  on_cursor_value_missing: Type.Optional(
    Type.Union([Type.Literal('raise'), Type.Literal('include'), Type.Literal('exclude')], {
      description: 'A record without the cursor: an error (the default), kept or left out.',
    }),
  ),
  range_start: Type.Optional(Type.Union([Type.Literal('closed'), Type.Literal('open')])),
  range_end: Type.Optional(Type.Union([Type.Literal('open'), Type.Literal('closed')])),
}

const incremental = Type.Object(
  {
    ...incrementalFields,
    end_value: Type.Optional(scalar),
    start_param: text('The parameter that carries the start.'),
    end_param: text('The parameter that carries the end.'),
  },
  closed,
)

/** An incremental read that is bound to a request parameter. */
export const incrementalParameter = Type.Object(incrementalFields, closed)

const responseAction = Type.Object(
  {
    status_code: Type.Optional(Type.Union([Type.Integer({ minimum: 100, maximum: 599 }), Type.String()])),
    content: text('A text that the body contains.'),
    action: Type.Union([Type.Literal('ignore'), Type.Literal('retry'), Type.Literal('fail')], {
      description: 'ignore: the page is empty and the last; retry: send it again; fail: end with an error.',
    }),
  },
  closed,
)

const condition = Type.Object(
  {
    field: Type.String({ minLength: 1, description: 'The path of the field.' }),
    equals: Type.Optional(scalar),
    not_equals: Type.Optional(scalar),
    in: Type.Optional(Type.Array(scalar, { maxItems: 10_000 })),
    not_in: Type.Optional(Type.Array(scalar, { maxItems: 10_000 })),
    greater_than: Type.Optional(Type.Union([Type.String(), Type.Number()])),
    less_than: Type.Optional(Type.Union([Type.String(), Type.Number()])),
    exists: Type.Optional(Type.Boolean()),
  },
  closed,
)

const processingStep = Type.Object(
  {
    filter: Type.Optional(condition),
    map: Type.Optional(
      Type.Object(
        {
          rename: Type.Optional(record(Type.String({ minLength: 1 }))),
          remove: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { maxItems: 1000 })),
          select: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { maxItems: 1000 })),
          set: Type.Optional(record(scalar)),
        },
        closed,
      ),
    ),
    yield_map: Type.Optional(
      Type.Object(
        {
          explode: Type.String({
            minLength: 1,
            description: 'The path of a list: each of its objects becomes a record.',
          }),
          keep: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { maxItems: 1000 })),
        },
        closed,
      ),
    ),
  },
  closed,
)

const endpoint = Type.Object(
  {
    path: text('The path below base_url, or a whole address. May hold placeholders: {resources.parent.field}.'),
    method: text('GET (the default), POST, PUT, PATCH or DELETE.'),
    params: Type.Optional(record(Type.Unknown(), { description: 'Parameters of the address.' })),
    headers: Type.Optional(record(Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()]))),
    json: Type.Optional(Type.Unknown({ description: 'The JSON body of the request.' })),
    data: Type.Optional(Type.Unknown({ description: 'Another body: a text, or an object that is sent as a form.' })),
    paginator,
    data_selector: path('The path of the records in the body. Absent: found in the first answer.'),
    incremental: Type.Optional(incremental),
    response_actions: Type.Optional(Type.Array(responseAction, { maxItems: 100 })),
  },
  closed,
)

const resourceFields = {
  endpoint: Type.Optional(Type.Union([Type.String({ minLength: 1 }), endpoint])),
  primary_key: Type.Optional(
    Type.Union([Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { maxItems: 32 })]),
  ),
  write_disposition: Type.Optional(
    Type.Union([Type.Literal('append'), Type.Literal('replace'), Type.Literal('merge'), Type.Literal('skip')], {
      description: 'Only a hint: config.sync of the pipeline decides.',
    }),
  ),
  include_from_parent: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { maxItems: 100 })),
  processing_steps: Type.Optional(Type.Array(processingStep, { maxItems: 100 })),
  parallelized: flag('Accepted and without effect: requests are sent ahead by themselves.'),
}

const resource = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 200, description: 'The name of the stream.' }),
    ...resourceFields,
    selected: flag('False: not a stream, only a parent of others.'),
  },
  closed,
)

export const settings = Type.Object(
  {
    client: Type.Object(
      {
        base_url: identity(
          Type.String({
            pattern: '^https?://',
            maxLength: 2000,
            description: 'The http or https address that paths are appended to.',
          }),
        ),
        headers: Type.Optional(
          secret(
            record(Type.Union([Type.String(), Type.Number(), Type.Boolean()]), {
              description: 'Headers of every request.',
            }),
          ),
        ),
        auth: Type.Optional(auth),
        paginator,
      },
      closed,
    ),
    resource_defaults: Type.Optional(Type.Object(resourceFields, closed)),
    resources: identity(
      Type.Array(Type.Union([Type.String({ minLength: 1, maxLength: 200 }), resource]), {
        minItems: 1,
        maxItems: 1000,
        description: 'One stream each: a name that is also the path, or an object.',
      }),
    ),
    requests_at_once: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 32, description: 'How many requests may be under way. Default: 4.' }),
    ),
  },
  closed,
)

export type RestApiSettings = Static<typeof settings>
export type PaginatorSettings = Static<typeof paginatorObject>
export type AuthSettings = Static<typeof auth>
export type IncrementalSettings = Static<typeof incremental>
export type EndpointSettings = Static<typeof endpoint>
export type ResourceSettings = Static<typeof resource>
export type StepSettings = Static<typeof processingStep>
export type ConditionSettings = Static<typeof condition>
export type ResponseActionSettings = Static<typeof responseAction>
