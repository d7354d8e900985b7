/**
 * Writes a run that is one Parquet file as one object. The file is converted before it is stored with us, and an attempt that
 * takes the run over sends the stored bytes: so the name of the object always has the same bytes.
 */

import type { ObjectWriter } from '../../../s3/upload.ts'
import type { Column, Page } from '../../contract.ts'
import { convertTable } from '../../formats/convert-table.ts'
import type { Table } from '../../formats/local-table.ts'
import type { ObjectsWriter, ObjectWriterContext } from './context.ts'
import type { ManifestObject } from './manifest.ts'
import { ObjectColumns } from './object-columns.ts'
import { contentType } from './object-formats.ts'

export class FileWriter implements ObjectsWriter {
  readonly columns: ObjectColumns
  readonly #context: ObjectWriterContext
  readonly #key: string
  #object: ObjectWriter | null = null
  #records = 0

  constructor(context: ObjectWriterContext, kept: Column[] | null) {
    const { target, run_id, reading, checkpoint, columns } = context
    this.#context = context
    this.#key = `${target}${run_id}-${reading}-${checkpoint + 1}-1.parquet`
    this.columns = new ObjectColumns({ ...context, columns: null }, kept)
    if (columns) this.columns.resume(columns)
  }

  async convert(table: Table): Promise<{ columns(): Column[]; pages: AsyncIterable<Page> }> {
    const { config, signal } = this.#context
    const { pages } = convertTable(table, {
      choose: (facts) => {
        this.columns.addFacts(facts)
        return this.columns.choose()
      },
      compression: config.compression,
      signal,
    })
    return { columns: () => this.columns.kept, pages }
  }

  async write({ bytes, records, restart, release }: Page): Promise<void> {
    const { bucket, config, fault } = this.#context
    if (restart) return this.close()
    if (this.#object === null) {
      await fault('s3:upload')
      this.#object = bucket.writer(this.#key, { 'content-type': contentType(config) })
    }
    this.#records += records
    await this.#object.write(bytes)
    release?.()
  }

  async finish(): Promise<ManifestObject[]> {
    const object = this.#object
    if (object === null) return []
    const { size } = await object.finish()
    this.#object = null
    return [{ key: this.#key, run_id: this.#context.run_id, records: this.#records, bytes: size }]
  }

  async close(): Promise<void> {
    await this.#object?.abort()
    this.#object = null
  }
}
