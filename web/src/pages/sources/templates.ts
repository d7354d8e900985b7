/** What a new source can start from: the project's own example sources, and a few manifests. Bundled, so always there. */
import type { SourceLanguage } from './authored.ts'

export interface Template {
  id: string
  language: SourceLanguage
  /** Its first sentence. */
  about: string
  code: string
}

const examples = import.meta.glob<string>('../../../../python/examples/*.py', {
  query: '?raw',
  import: 'default',
  eager: true,
})
const manifests = import.meta.glob<string>('./templates/*.yaml', { query: '?raw', import: 'default', eager: true })

/** The one without a server first, because it can be previewed at once. */
const FIRST = 'greenhouse'

export const templates: Template[] = [
  ...Object.entries(examples).map(([path, code]) => toTemplate(path, code, 'python')),
  ...Object.entries(manifests).map(([path, code]) => toTemplate(path, code, 'yaml')),
].sort((a, b) => Number(b.id === FIRST) - Number(a.id === FIRST))

export function findTemplate(language: SourceLanguage, id: string | undefined): Template | undefined {
  return templates.find((template) => template.language === language && template.id === id)
}

function toTemplate(path: string, code: string, language: SourceLanguage): Template {
  const id = path.replace(/^.*\/|\.\w+$/g, '')
  if (language === 'yaml') return { id, language, about: code.split('\n', 1)[0]!.replace(/^# */, ''), code }
  // The lines about running it on a laptop belong to the repository, not to a source in the console.
  const [, about = '', rest = ''] = /^"""(.*?)\n(?:.*?)"""\n+(.*)$/s.exec(code) ?? []
  return { id, language, about, code: `"""${about}"""\n\n${rest}` }
}

export const BLANK: Record<SourceLanguage, string> = {
  python: `from collections.abc import Iterator

from svc.source.base import AbstractSource
from svc.source.models import SourceConfig, SourceRecord


class MyConfig(SourceConfig):
    """What a pipeline can set. A field without a value is required."""

    greeting: str = "hello"


class MySource(AbstractSource):
    name = "my_source"

    def get_streams(self) -> list[str]:
        return ["items"]

    def check_connection(self) -> bool:
        return True

    def get_records(self, stream: str) -> Iterator[SourceRecord]:
        # self.http reads from servers: for row in self.http.paginate_pages("https://…")
        for number in range(1, 4):
            yield SourceRecord(id=number, data={"id": number, "text": self.config.greeting})
`,
  yaml: `version: 6.0.0
type: DeclarativeSource

check:
  type: CheckStream
  stream_names: [items]

streams:
  - type: DeclarativeStream
    name: items
    primary_key: id
    retriever:
      type: SimpleRetriever
      requester:
        type: HttpRequester
        url_base: "{{ config['base_url'] }}"
        path: /items
      record_selector:
        type: RecordSelector
        extractor:
          type: DpathExtractor
          field_path: []
    schema_loader:
      type: InlineSchemaLoader
      schema:
        type: object
        properties:
          id: {type: integer}

spec:
  type: Spec
  connection_specification:
    type: object
    required: [base_url]
    properties:
      base_url:
        type: string
        title: Base URL
`,
}
