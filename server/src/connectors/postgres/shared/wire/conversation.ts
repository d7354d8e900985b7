/**
 * The protocol state machine: which messages a server may send next, and how many. A session sends one query at a time, so
 * only a few kinds of message can be an answer at any moment. All others are refused: the driver would respond to some of
 * them forever (PortalSuspended), has no handler for others (CopyInResponse to a COPY TO), and would take a superfluous
 * ReadyForQuery for the answer to the next query.
 *
 *   start ─ Authentication … ─ starting ─ ReadyForQuery ─ idle
 *   idle ─ begin(question) ─ one path of states below ─ ReadyForQuery ─ idle
 *
 * Notices, parameters and notifications may come between all others.
 */
import { authentications, kinds, nameOf, Violation } from './frames.ts'

/** `end of rows` belongs to `copy in`: the server cannot confirm the rows before it knows there are no more. */
export type Question = 'simple' | 'extended' | CopyQuestion | 'end of rows'
type CopyQuestion = 'copy in' | 'copy out' | 'binary copy in' | 'binary copy out'

type State =
  | 'start'
  | 'password sent'
  | 'SASL begun'
  | 'SASL continued'
  | 'SASL finished'
  | 'starting'
  | 'idle'
  | 'simple'
  | 'simple rows'
  | 'simple done'
  | 'extended'
  | 'parsed'
  | 'bound'
  | 'described'
  | 'rows'
  | 'copy in'
  | 'taking rows'
  | 'end of rows'
  | 'copy out'
  | 'giving rows'
  | 'rows given'
  | 'done'
  | 'failed'

const k = kinds

/** By state: which messages may come and which state they lead to. */
const transitions: Record<State, Readonly<Record<number, State>>> = {
  start: { [k.error]: 'failed' },
  'password sent': { [k.error]: 'failed' },
  'SASL begun': { [k.error]: 'failed' },
  'SASL continued': { [k.error]: 'failed' },
  'SASL finished': { [k.error]: 'failed' },
  starting: { [k.keyData]: 'starting', [k.ready]: 'idle', [k.error]: 'failed' },
  // No query is open: the server announces that it is shutting down.
  idle: { [k.error]: 'idle' },
  simple: {
    [k.rowDescription]: 'simple rows',
    [k.complete]: 'simple done',
    [k.emptyQuery]: 'simple done',
    [k.error]: 'failed',
  },
  'simple rows': { [k.dataRow]: 'simple rows', [k.complete]: 'simple done', [k.error]: 'failed' },
  // A script has several statements.
  'simple done': {
    [k.rowDescription]: 'simple rows',
    [k.complete]: 'simple done',
    [k.emptyQuery]: 'simple done',
    [k.ready]: 'idle',
    [k.error]: 'failed',
  },
  extended: { [k.parsed]: 'parsed', [k.error]: 'failed' },
  parsed: { [k.bound]: 'bound', [k.closed]: 'done', [k.error]: 'failed' },
  bound: { [k.rowDescription]: 'rows', [k.noData]: 'described', [k.error]: 'failed' },
  described: { [k.complete]: 'done', [k.emptyQuery]: 'done', [k.error]: 'failed' },
  rows: { [k.dataRow]: 'rows', [k.complete]: 'done', [k.error]: 'failed' },
  'copy in': { [k.copyIn]: 'taking rows', [k.error]: 'failed' },
  'taking rows': { [k.error]: 'failed' },
  'end of rows': { [k.complete]: 'done', [k.error]: 'failed' },
  'copy out': { [k.copyOut]: 'giving rows', [k.error]: 'failed' },
  'giving rows': { [k.copyData]: 'giving rows', [k.copyDone]: 'rows given', [k.error]: 'failed' },
  'rows given': { [k.complete]: 'done', [k.error]: 'failed' },
  done: { [k.ready]: 'idle', [k.error]: 'failed' },
  failed: { [k.ready]: 'idle', [k.error]: 'failed' },
}

/** The same for the messages of kind Authentication, by their type. */
const logins: Partial<Record<State, Readonly<Record<number, State>>>> = {
  start: {
    [authentications.ok]: 'starting',
    [authentications.password]: 'password sent',
    [authentications.md5]: 'password sent',
    [authentications.sasl]: 'SASL begun',
  },
  'password sent': { [authentications.ok]: 'starting' },
  'SASL begun': { [authentications.saslContinue]: 'SASL continued' },
  'SASL continued': { [authentications.saslFinal]: 'SASL finished', [authentications.ok]: 'starting' },
  'SASL finished': { [authentications.ok]: 'starting' },
}

/** Limits for the answer to one query. Rows of COPY are pages with backpressure and do not count. */
interface AnswerLimits {
  bytes: number
  rows: number
  /** Values in all rows together. */
  values: number
  /** Columns in all row descriptions together. */
  columns: number
  /** Everything that is not a row: notices, parameters, results of single statements. */
  messages: number
}

const answerLimits: AnswerLimits = {
  bytes: 32 * 1024 * 1024,
  rows: 250_000,
  values: 1_000_000,
  columns: 20_000,
  messages: 10_000,
}

export class Conversation {
  readonly #limits: AnswerLimits
  #state: State = 'start'
  #used: AnswerLimits = { bytes: 0, rows: 0, values: 0, columns: 0, messages: 0 }
  #columns = 0
  #progress = 0
  #begun = false
  #binary = false

  constructor(limits = answerLimits) {
    this.#limits = limits
  }

  /** A query was sent. Queries sent while another is open are part of it and ignored here. */
  begin(question: Question): void {
    if (question === 'end of rows') {
      if (this.#state === 'taking rows') this.#state = question
      return
    }
    if (this.#state !== 'idle') return
    this.#binary = question.startsWith('binary ')
    this.#state = question.replace('binary ', '') as State
    this.#used = { bytes: 0, rows: 0, values: 0, columns: 0, messages: 0 }
  }

  /** Whether anything was received that only PostgreSQL sends. */
  get begun(): boolean {
    return this.#begun
  }

  /** Rows of COPY may come now; they need no `accept`. */
  get givesRows(): boolean {
    return this.#state === 'giving rows'
  }

  /** `settling`: only ReadyForQuery is missing, which a server can send without delay. */
  get owes(): 'nothing' | 'answer' | 'settling' {
    if (this.#state === 'idle') return 'nothing'
    return this.#state === 'done' || this.#state === 'failed' ? 'settling' : 'answer'
  }

  /** Grows with every message that makes progress; notices and the like do not. */
  get progress(): number {
    return this.#progress
  }

  /** Throws if a message of this kind and length cannot come now. */
  expect(kind: number, length: number): void {
    if (!this.#mayCome(kind)) throw new Violation(`it sent ${nameOf(kind)} ${this.#moment()}`)
    this.#begun = true
    this.#count('bytes', length)
  }

  #mayCome(kind: number): boolean {
    if (kind === k.authentication) return this.#state in logins
    if (kind === k.notice) return true
    if (kind === k.parameter || kind === k.notification) return !(this.#state in logins)
    return kind in transitions[this.#state]
  }

  #moment(): string {
    if (this.#state in logins) return 'before the login was complete'
    if (this.#state === 'idle') return 'without a query'
    return this.#state === 'starting' ? 'before it was ready' : 'where something else had to follow'
  }

  /** Takes a whole message that was expected and is well formed, and changes the state. */
  accept(kind: number, bytes: Buffer, at: number): void {
    if (kind === k.dataRow) this.#acceptRow(bytes, at)
    else this.#count('messages', 1)
    if (kind === k.authentication) return void this.#acceptLogin(bytes.readInt32BE(at + 5))
    if (kind === k.rowDescription) {
      this.#columns = bytes.readInt16BE(at + 5)
      this.#count('columns', this.#columns)
    }
    // Rows in another form than the one that was asked for would be misread.
    if ((kind === k.copyIn || kind === k.copyOut) && bytes[at + 5] !== (this.#binary ? 1 : 0))
      throw new Violation(`it ${this.#binary ? 'does not copy' : 'copies'} in binary form`)
    const next = transitions[this.#state][kind]
    if (next === undefined) return
    this.#state = next
    this.#progress += 1
  }

  #acceptRow(bytes: Buffer, at: number): void {
    const columns = bytes.readInt16BE(at + 5)
    if (columns !== this.#columns)
      throw new Violation(`it sent a row of ${columns} values for a result of ${this.#columns} columns`)
    this.#count('rows', 1)
    this.#count('values', columns)
  }

  #acceptLogin(type: number): void {
    const next = logins[this.#state]?.[type]
    if (next === undefined) throw new Violation(`it asked for authentication of type ${type} out of order`)
    this.#state = next
  }

  #count(what: keyof AnswerLimits, more: number): void {
    this.#used[what] += more
    if (this.#used[what] > this.#limits[what])
      throw new Violation(`it answered one query with more than ${this.#limits[what]} ${what}`, 'sends too much')
  }
}
