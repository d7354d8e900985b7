/**
 * The reading loop of an attempt: pages from the source into the stage and on to the loader, divided by checkpoints.
 */
import type { Page } from '../connectors/contract.ts'
import type { Json } from '../json/json.ts'
import { type Attempt, blame } from './attempt.ts'
import type { Channel } from './channel.ts'
import { type CheckpointRule, createCheckpointRule } from './checkpoints.ts'
import { columnChooser } from './columns.ts'
import { asFailure, engineChooses } from './endpoints.ts'
import type { Part } from './job.ts'
import { followPages } from './pages.ts'

export type Item = { page: Page } | { checkpoint: PendingCheckpoint }

export interface PendingCheckpoint {
  number: number
  cursor: Json
  records_read: number
  sealed: Promise<Part | null>
  /** The last checkpoint of the run: the source has no more. */
  done: boolean
}

export class PageReader {
  readonly #attempt: Attempt
  readonly #channel: Channel<Item>
  readonly #rule: CheckpointRule
  /** Set if the engine selects the columns. */
  readonly #choose: ((page: Page) => Page) | null
  #number: number
  #cursor: Json
  /** The last page had a cursor, so that a checkpoint may follow it. */
  #atCursor = false
  /** Some page had none: how long the next checkpoint takes is up to the source. */
  #sparse = false
  #waiting = false
  #asked = false
  /** The checkpoint that was asked for while the source gave nothing. */
  #begun: Promise<void> | null = null

  constructor(attempt: Attempt, channel: Channel<Item>) {
    const { job, endpoints } = attempt
    this.#attempt = attempt
    this.#channel = channel
    this.#rule = createCheckpointRule(attempt.host.checkpointEvery)
    this.#choose = engineChooses(job, endpoints.source) ? columnChooser(job.columns) : null
    this.#number = attempt.start.doubtful?.checkpoint ?? attempt.checkpoint
    this.#cursor = attempt.cursor
    attempt.requestCheckpoint = () => this.#answerRequest()
  }

  async readAll(given: AsyncIterable<Page>): Promise<void> {
    const { host, start, signal } = this.#attempt
    const pages = followPages(given, signal)
    try {
      while (true) {
        this.#waiting = true
        const { value: page, done } = await pages.next().catch(blame(host, 'source'))
        this.#waiting = false
        await this.#begun
        if (done) break
        // An earlier attempt read everything; what the source returns after its last cursor is already loaded.
        if (!start.done) await this.#take(page)
      }
    } finally {
      this.#waiting = false
      // If the stage or the loader failed, the source still has to release its resources.
      await pages.return(undefined)
    }
    await this.#end()
  }

  /** Between two pages only: a page in hand is taken first. */
  #answerRequest(): void {
    this.#asked = true
    if (!this.#waiting || !this.#mayCheckpoint()) return
    this.#begun = this.#beginCheckpoint(false).catch((error) => this.#attempt.stop(error))
  }

  #mayCheckpoint(): boolean {
    // A part of a Parquet file is of no use.
    if (this.#attempt.encoding === 'parquet') return false
    return this.#rule.pending() && (this.#atCursor || !this.#attempt.resumable)
  }

  async #take(page: Page): Promise<void> {
    const { host, stage, counts, resumable } = this.#attempt
    if (page.restart) {
      await stage.abort()
      return this.#channel.push({ page }, 0)
    }
    if (resumable && page.cursor === undefined) await this.#noticeSparse()
    this.#atCursor = page.cursor !== undefined
    const chosen = this.#choose ? chooseColumns(this.#choose, page) : page
    counts.records_read += page.records
    if (page.cursor !== undefined) this.#cursor = page.cursor
    await stage.append(chosen.bytes, chosen.records).catch(blame(host, 'internal'))
    // From here on the load may give the bytes back.
    const { length } = chosen.bytes
    await this.#channel.push({ page: chosen }, length)
    this.#rule.add(length, chosen.records)
    if (this.#mayCheckpoint() && (this.#asked || this.#rule.due())) await this.#beginCheckpoint(false)
  }

  /**
   * So far every page had a cursor, and the destination could count on a checkpoint whenever it asks for one. Before the
   * first page of which that is not true it gets one, and nothing that it holds open has to wait for the next cursor.
   */
  async #noticeSparse(): Promise<void> {
    if (this.#sparse) return
    this.#sparse = true
    if (this.#mayCheckpoint()) await this.#beginCheckpoint(false)
  }

  /** If batches may be resent, we must record that everything was read, even if nothing more came. */
  async #end(): Promise<void> {
    const { endpoints, start } = this.#attempt
    const saysDone = endpoints.destination.capabilities.commits === 'batch' && !start.done
    if (this.#rule.pending() || saysDone) await this.#beginCheckpoint(true)
    this.#channel.close()
  }

  async #beginCheckpoint(done: boolean): Promise<void> {
    const { host, stage, counts } = this.#attempt
    this.#rule.begin()
    this.#asked = false
    await host.fault('seal:before')
    this.#number += 1
    const sealed = stage.seal(this.#number)
    // It may fail while the loader is still busy with earlier pages; the loader reports it when it awaits it.
    sealed.catch(() => undefined)
    const { records_read } = counts
    const checkpoint = { number: this.#number, cursor: this.#cursor, records_read, sealed, done }
    await this.#channel.push({ checkpoint }, 0)
  }
}

/** A line that is not JSON is detected here first, and it is the source's fault. */
function chooseColumns(choose: (page: Page) => Page, page: Page): Page {
  try {
    return choose(page)
  } catch (error) {
    throw asFailure(error, 'source')
  }
}
