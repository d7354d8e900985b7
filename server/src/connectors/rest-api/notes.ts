import type { Json } from '../../json/json.ts'

export const exampleConfig: Record<string, Json> = {
  name: 'rest_api',
  stream: 'issues',
  config: {
    client: {
      base_url: 'https://api.github.com/repos/acme/shop',
      auth: { type: 'bearer', token: 'ghp_0123456789abcdef' },
      paginator: { type: 'header_link' },
    },
    resource_defaults: { primary_key: 'id', endpoint: { params: { per_page: 100 } } },
    resources: [
      {
        name: 'issues',
        endpoint: {
          path: 'issues',
          params: { state: 'all', sort: 'updated', direction: 'asc' },
          incremental: { cursor_path: 'updated_at', initial_value: '2024-01-01T00:00:00Z', start_param: 'since' },
        },
      },
      {
        name: 'comments',
        endpoint: { path: 'issues/{resources.issues.number}/comments' },
        include_from_parent: ['number'],
      },
    ],
  },
}

export const notes = `The settings have the shape of the REST API source of [dlt](https://dlthub.com/docs/dlt-ecosystem/verified-sources/rest_api/basic):
the dictionary that is given to \`rest_api_source\` in Python is given here as JSON. [HTTP sources](../http-sources.md) takes you from the
documentation of an API to a scheduled pipeline.

### Resources and records

Each resource is a stream, unless \`selected\` is false. A text is a resource whose path is its name. \`resource_defaults\` applies to
all of them; of an endpoint, \`params\` and \`json\` are merged, everything else is replaced. The size of the defaults times the number
of resources may be 2 MB.

\`data_selector\` says where the records are: \`data.items\`, \`$\` for the whole body, \`[*].tags\` for all lists of a list. Without it
the first answer decides: the body itself if it is a list, otherwise a list under a usual name (data, items, results, records and
so on), otherwise the first list, otherwise the body is one record. A path that ends with a placeholder is one object.
Records are copied byte for byte unless a step, or a filter, has to look into them, so no number loses a digit; those that are
looked into keep their digits, too.

### Pages

| Paginator | Follows |
|---|---|
| \`header_link\` | the relation \`links_next_key\` (next) of the Link header |
| \`json_link\` | the address at \`next_url_path\` (next) in the body |
| \`cursor\` | the value at \`cursor_path\` (cursors.next) in the body, sent as \`cursor_param\` (cursor) or at \`cursor_body_path\` |
| \`header_cursor\` | the header \`cursor_key\` (next), sent as \`cursor_param\` (cursor) |
| \`page_number\` | \`page_param\` (page) from \`base_page\` (0), until \`total_path\` (total) pages, \`maximum_page\`, \`has_more_path\` false or an empty page |
| \`offset\` | \`offset_param\` (offset) in steps of \`limit\`, until \`total_path\` (total) records, \`maximum_offset\`, \`has_more_path\` false or an empty page |
| \`single_page\` | nothing |
| \`auto\` | what the answer suggests: a Link header, an address under a key that begins with next, a number of pages, a cursor |

Pages by number and by offset are requested ahead, at most \`requests_at_once\` (4) of them and only as many as were read before; so are
the first pages of the next parents. An API that names a page again as the next one is an error. An answer may have 64 MiB.

### Parents and children

\`{resources.issues.number}\` in a path, a parameter, a header or a body is a field of a record of the resource \`issues\`, which is read for
it; so is \`{number}\` in a path with the parameter \`"number": {"type": "resolve", "resource": "issues", "field": "number"}\`. A resource has
one parent, which may have a parent itself. \`include_from_parent\` adds fields of the parent as \`_issues_number\`.

### Incremental reads

\`incremental\` names the field that grows (\`cursor_path\`), where to begin (\`initial_value\`), and the parameter that carries the last
value (\`start_param\`; or \`"since": {"type": "incremental", …}\` among the parameters, or \`{incremental.start_value}\` anywhere). Use
\`sync.mode\` incremental without a \`cursor_field\`. Records that are older than the last value are left out even if the API returns
them, and so are those with exactly that value that were read before: each record comes once. Of more than 5,000 records that
share the highest value only so many are remembered; the next run returns the others again, and the log says so. Children have
one value for each parent. \`row_order\` desc stops at the first page that holds an older record. If a parent is incremental, only
parents that changed are asked for their children.

A run that is interrupted continues with the page it was at.

### Errors and limits

A 429 waits for as long as \`Retry-After\` says, at most 15 minutes; 408 and 5xx are tried again five times, with growing pauses;
other statuses end the run with what the API says. \`response_actions\` change that: \`ignore\` ends the pages without an error, \`retry\`
and \`fail\` do what they say. The first action whose status and content match applies.

### Authentication

Either \`client.auth\` (\`bearer\`, \`api_key\`, \`http_basic\`, \`oauth2_client_credentials\`), or the \`authentication\` that every source has, which
adds \`oauth2_refresh_token\`: there a refresh token that the provider replaces is stored. Secrets belong there or in
\`client.headers\`; parameters, headers and fields of a body whose names sound like a secret (\`token\`, \`X-Auth-Token\`, \`api_key\`, and outside of
bodies \`key\`) are refused, because they are shown. A next page on another server gets no credentials.

### What differs from dlt

- Python is not executed. \`convert\` is one of epoch_seconds, epoch_milliseconds, iso, date, integer and string. A processing step is
  \`{"filter": {"field": "status", "equals": "open"}}\` (also not_equals, in, not_in, greater_than, less_than, exists),
  \`{"map": {"select": ["id"], "rename": {"a": "b"}, "remove": ["x.y"], "set": {"source": "api"}}}\` or
  \`{"yield_map": {"explode": "items", "keep": ["id"]}}\`. Hooks, sessions, own paginators and own authentication classes are not supported.
- \`write_disposition\` is a hint: \`config.sync\` of the pipeline decides. Nested values stay in the record.
- A value that dlt would take from its configuration or environment must be given.
- An endpoint has no authentication of its own: use a second source. An api_key may be in a cookie, which dlt does not send.
- \`total_path\` must be in the answer only if it is given. \`auto\` begins counting pages where the answer says that it is.
- An incremental with \`end_value\` keeps its state. Children keep a value for each parent, where dlt has one for all.
- A JSONPath leads to a place: names, indexes and \`*\`, no filters.`
