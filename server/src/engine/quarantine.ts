/**
 * The quarantine of a run: records that its destination refused, one line `{"record":{…},"reason":"…"}` each, in parts
 * beside those of the stage. Each refused record is there exactly once:
 *
 *   mark    The destination calls `keep` right before it commits checkpoint n: part durable → listed with us as part of
 *           n → committed. A later attempt drops the parts above the checkpoint of the mark, so a
 *           part counts exactly when its checkpoint does. What is refused while a run is published is part of n + 1, and
 *           counts if the mark says that it was published.
 *   batch   Records are refused while batch n is sent, and listed with the next checkpoint or the end of the run. Until
 *           then n is in doubt: it is sent again, refused again, and only that part is listed.
 *
 * The share of refused records is checked with every one of them, then of at least EARLY_RECORDS, so that a few bad
 * records at the beginning do not fail a long run, and a batch of nothing else fails quickly; and exactly before the
 * last checkpoint is committed and before the run is published.
 */
import type { BlobStore } from '../blobs/blobs.ts'
import { openPartWriter, type PartWriter } from '../blobs/part-writer.ts'
import { quarantineKey } from '../blobs/run-keys.ts'
import { ConnectorError, type RefusedRecords } from '../connectors/contract.ts'
import type { Redact } from '../connectors/settings/redact.ts'
import type { Part } from './job.ts'
import { formatCount } from './sentences.ts'

const EARLY_RECORDS = 10_000
export const DEFAULT_SHARE = 0.01
const REASON_CHARACTERS = 1000
const EXAMPLES = 3
const EXAMPLE_CHARACTERS = 300

export interface QuarantineInput {
  blobs: BlobStore
  /** `<organization>/runs/<run>/` */
  prefix: string
  attempt: number
  /** The parts of checkpoints that count. */
  parts: readonly Part[]
  share: number
  redact: Redact
  /** How far the run is. `complete`: the source has no more. */
  position(): { records_read: number; checkpoint: number; complete: boolean }
  /** Saves the list with the last checkpoint. */
  save(parts: Part[]): Promise<void>
}

export class Quarantine implements RefusedRecords {
  readonly #input: QuarantineInput
  readonly #parts: Part[]
  readonly #examples = new Set<string>()
  #kept: number
  #open: { writer: PartWriter; records: number } | null = null
  #number = 0

  constructor(input: QuarantineInput) {
    this.#input = input
    this.#parts = [...input.parts]
    this.#kept = sumRecords(input.parts)
  }

  /** Without what was not kept yet. */
  get parts(): Part[] {
    return [...this.#parts]
  }

  get records(): number {
    return this.#kept + (this.#open?.records ?? 0)
  }

  async add(record: string, reason: string): Promise<void> {
    const { blobs, prefix, attempt, redact, position } = this.#input
    const sentence = shorten(redact(reason), REASON_CHARACTERS)
    this.#open ??= { writer: openPartWriter(blobs, quarantineKey(prefix, attempt, ++this.#number), 'zstd'), records: 0 }
    this.#open.records += 1
    if (this.#examples.size < EXAMPLES) this.#examples.add(shorten(sentence, EXAMPLE_CHARACTERS))
    await this.#open.writer.write(Buffer.from(`{"record":${record},"reason":${JSON.stringify(sentence)}}\n`))
    await this.#checkShare(Math.max(position().records_read, EARLY_RECORDS))
  }

  async keep(): Promise<void> {
    if (this.#input.position().complete) await this.checkShare()
    if (await this.seal()) await this.#input.save(this.parts)
  }

  /** Makes what was added a durable part of the checkpoint that follows the last one. False: nothing was added. */
  async seal(): Promise<boolean> {
    const open = this.#open
    if (open === null) return false
    const part = await open.writer.finish()
    this.#open = null
    this.#kept += open.records
    this.#parts.push({ checkpoint: this.#input.position().checkpoint + 1, ...part, records: open.records })
    return true
  }

  /** Of all records that were read. */
  checkShare(): Promise<void> {
    return this.#checkShare(this.#input.position().records_read)
  }

  /** The records of a run that fails for this reason are kept, so that its owner can see what was wrong with them. */
  async #checkShare(whole: number): Promise<void> {
    const { share, position, save } = this.#input
    if (this.records <= share * whole) return
    await this.seal()
    await save(this.parts)
    throw new ConnectorError(
      'destination',
      `The destination refused ${this.records.toLocaleString('en-US')} of ${formatCount(position().records_read, 'record')}, more than config.sync.max_error_share (${share}) allows. ${this.#describeReasons()} The quarantine of the run has them`,
    )
  }

  /** One sentence for the log; null if nothing was refused. */
  describe(): string | null {
    if (this.records === 0) return null
    const what = this.records === 1 ? 'it is' : 'they are'
    return `The destination refused ${formatCount(this.records, 'record')}; ${what} in the quarantine of the run. ${this.#describeReasons()}`.trim()
  }

  /** Only those of this attempt are known. */
  #describeReasons(): string {
    const reasons = [...this.#examples]
    if (reasons.length === 0) return ''
    return `${reasons.length === 1 ? 'Reason' : 'The first reasons'}: ${reasons.join('; ')}.`
  }

  async abort(): Promise<void> {
    const open = this.#open
    this.#open = null
    await open?.writer.abort()
  }
}

const sumRecords = (parts: readonly Part[]): number => parts.reduce((sum, { records }) => sum + records, 0)

function shorten(text: string, most: number): string {
  const line = text.replace(/\s+/g, ' ').replace(/\.$/, '').toWellFormed()
  return line.length <= most ? line : `${line.slice(0, most).toWellFormed()}…`
}
