/** `sluice source new NAME`: a file that runs as it is, to begin with. */
import { writeFile } from 'node:fs/promises'
import { UsageError } from '../errors.ts'
import { explainFile } from './files.ts'
import type { Options } from './options.ts'
import { createOutput } from './output.ts'

export async function newSource(name: string, options: Options): Promise<number> {
  const output = createOutput(options)
  if (!/^[A-Za-z][A-Za-z0-9_.-]{0,99}$/.test(name))
    throw new UsageError(
      `A source has a name of letters, digits, '_', '.' and '-' that begins with a letter, not '${name}'.`,
    )
  const file = `${name}.py`
  try {
    await writeFile(file, template(name), { flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST')
      throw new UsageError(`${file} exists and was left as it is; choose another name.`)
    throw new UsageError(`${file} cannot be written: ${explainFile(error)}.`)
  }
  if (output.json) output.data({ file, source_name: name })
  else output.line(`${file} was written. Try it with: sluice source preview ${file} --watch`)
  return 0
}

const classOf = (name: string): string =>
  name
    .split(/[_.-]+/)
    .map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))
    .join('')

const template = (name: string): string => {
  const type = classOf(name)
  return `from collections.abc import Iterator

from svc.source.base import AbstractSource
from svc.source.models import SourceConfig, SourceRecord


class ${type}Config(SourceConfig):
    base_url: str = "https://example.com"


class ${type}(AbstractSource):
    name = "${name}"

    def get_streams(self) -> list[str]:
        return ["items"]

    def check_connection(self) -> bool:
        return True

    def get_records(self, stream: str) -> Iterator[SourceRecord]:
        # Read from your system here: self.http.get(f"{self.config.base_url}/{stream}").raise_for_status().json()
        rows = [{"id": 1, "name": "first"}, {"id": 2, "name": "second"}]
        for row in rows:
            yield SourceRecord(id=row["id"], data=row)
`
}
