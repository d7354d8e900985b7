/** The example and the page of the `manifest` source. */
import type { Json } from '../../json/json.ts'

const EXAMPLE = `version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [pokemon]}
streams:
  - type: DeclarativeStream
    name: pokemon
    primary_key: name
    retriever:
      type: SimpleRetriever
      requester:
        type: HttpRequester
        url_base: "{{ config['base_url'] }}"
        path: /api/v2/pokemon
      record_selector:
        type: RecordSelector
        extractor: {type: DpathExtractor, field_path: [results]}
      paginator:
        type: DefaultPaginator
        page_token_option: {type: RequestPath}
        pagination_strategy:
          type: CursorPagination
          cursor_value: "{{ response.next }}"
          stop_condition: "{{ not response.next }}"
    schema_loader:
      type: InlineSchemaLoader
      schema:
        type: object
        properties:
          name: {type: string}
          url: {type: string}
spec:
  type: Spec
  connection_specification:
    type: object
    required: [base_url]
    properties:
      base_url: {type: string, default: "https://pokeapi.co"}
`

export const exampleConfig: Record<string, Json> = {
  name: 'manifest',
  stream: 'pokemon',
  config: { manifest: EXAMPLE, settings: { base_url: 'https://pokeapi.co' } },
}

export const notes = `
Runs the YAML of a declarative Airbyte manifest: streams, pages, authentication, incremental reads, parents and children,
error handling, asynchronous exports. Save a manifest once with \`POST /api/manifests\` and use it by its name, or give it
inline as \`config.manifest\` with its settings in \`config.settings\`. [HTTP sources](../http-sources.md) leads from a manifest
to a scheduled pipeline, and says what differs from Airbyte.

- \`sluice manifest check FILE…\` says which streams of a manifest run, and why others do not.
- The settings are those of \`spec.connection_specification\`; they are stored encrypted, and masked as a whole for callers
  without write permission.
- Streams that need custom Python components are refused with the names of the classes; the others run.
- A stream with an incremental cursor is read incrementally with \`sync.mode: incremental\`; no \`cursor_field\` is needed.
`
