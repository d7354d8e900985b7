/**
 * The conformance suite: what every connector must guarantee, whatever system it talks to. The suite finds connectors in the
 * registry; each brings a fixture (test/connectors/fixtures/<name>.ts) that says how to make a good target, what bad
 * credentials are, and how to read back what arrived. A connector without a fixture fails the suite.
 */
import type { Authentication, FailureKind, Source } from '../../src/connectors/contract.ts'
import type { Outcome } from '../../src/engine/execute.ts'
import type { AuthServer } from './auth-server.ts'
import type { LineSourceOptions } from './line-source.ts'
import type { RunBench } from './run-bench.ts'

export interface Settings {
  config: Record<string, unknown>
  authentication?: Authentication
}

/** What source and destination fixtures have in common. Absent if a connector has no such thing. */
export interface Peers {
  /** Settings with which `check` passes. */
  good(): Promise<Settings>
  /**
   * A stream that is there and that these credentials may not use, while the connection itself works: with `elsewhere` laid
   * over the settings, and without the stream.
   */
  forbidden?(): Promise<Settings & { stream: string; elsewhere?: Record<string, unknown> }>
  /** Settings that the other side refuses, and the kind of failure this is. */
  badCredentials?(): Promise<Settings & { kind: FailureKind }>
  /** Settings that require TLS, for a server that has none. */
  tlsRefused?(): Promise<Settings>
  /** Good settings with another address: the suite puts peers there that refuse, hang up, say nothing or talk nonsense. */
  at?(host: string, port: number): Promise<Settings>
  /** Texts that must never appear in a log or an error: the passwords and keys of all the settings above. */
  secrets: string[]
  close(): Promise<void>
}

export interface SourceFixture extends Peers {
  /** A stream of exactly this many records. */
  stream(records: number): Promise<Settings & { stream: string }>
  /** A stream of difficult values with the expected rows, as JSON. Absent if the source generates its records. */
  nasty?(): Promise<Settings & { stream: string; expected: string[] }>
  /** Appends records to a stream, for incremental reads. */
  grow?(settings: Settings & { stream: string }, records: number): Promise<Settings & { stream: string }>
  /**
   * A stream that only requests get which the server admits: for the authentication types that the source names.
   * `ignored` where it accepts them and makes no use of them.
   */
  guarded?: ((auth: AuthServer) => Promise<Settings & { stream: string; records: number }>) | 'ignored'
  /** The field that orders the stream, if an incremental read needs one. */
  cursorField?: string
  /** Its cursor is the place in the stream, counted from 0. Absent: the field `id`. */
  positions?: true
}

export interface DestinationFixture extends Peers {
  /** Settings of a new, empty target. */
  target(): Promise<Settings>
  /** What a reader sees at the target, one JSON object per row. `outcome` is that of the last run, for outputs. */
  read(settings: Settings, outcome: Outcome | null, bench: RunBench): Promise<string[]>
  /** How the destination is expected, and documented, to store a row that it cannot store unchanged. Absent: unchanged. */
  expected?(row: string): string
  /** Brings the rows of all runs instead of JSON lines, in a form of which no output can be kept. */
  source?(rows: readonly string[], options?: LineSourceOptions): Source
  /** It stores whole rows without columns, so schema_change does not apply. */
  schemaless?: true
  /** What arrives is visible at once, as the connector's page says. So what a lost run sent comes again from the next. */
  cannotHide?: true
  /**
   * New, empty targets that refuse every record whose name begins with `refused`, each in another way. Needed by
   * destinations that declare `quarantine`.
   */
  refusing?: Record<string, () => Promise<Settings>>
}

export type OpenSourceFixture = (bench: RunBench) => Promise<SourceFixture>
export type OpenDestinationFixture = (bench: RunBench) => Promise<DestinationFixture>

/** Values that are known to break loaders, in columns that keep their type. */
export function nastyRows(): string[] {
  const texts = [
    'plain',
    '',
    ' ',
    'emoji \u{1F9A6} and \u{1F469}\u200D\u{1F680}, umlaut \u00fc, \u4e2d\u6587, \u05d0\u05d1 right to left',
    'quotes " and \' and ` and \u201c\u201d',
    'new\nline, return\rtab\tvertical\vform\f',
    'back\\slash, \\n not a newline, \\\\ two',
    '\\N',
    '\\.',
    '\\x41 {"json":true} NULL null true 1',
    'comma, semicolon; pipe | brace { } bracket [ ]',
    'bell \u0007 escape \u001b delete \u007f separator \u2028\u2029 \ufeffbom',
    'nul \u0000 in the middle',
    "'); DROP TABLE rows; --",
    '\u00e9 against e\u0301',
    'x'.repeat(1024 * 1024),
  ]
  const integers = ['0', '-1', '9007199254740993', '-9007199254740993', '9223372036854775807', '-9223372036854775808']
  const decimals = [
    '0.1',
    '-0',
    '0.1234567890123456789012345678901',
    '123456789012345678901234567890.5',
    '1e-30',
    '2.50',
  ]
  const times = [
    '1883-11-18T12:03:58Z',
    '0001-01-01T00:00:00Z',
    '1999-12-31T23:59:59.999999Z',
    '2024-02-29T12:00:00+05:30',
  ]
  const nested = [
    '{"a":[1,{"b":null}],"c":"x\\ny"}',
    '[]',
    '{}',
    '[[["deep"]]]',
    '{"big":12345678901234567890.12345}',
    '[null,"",0]',
  ]
  return texts.map((text, at) => {
    const pick = (values: string[]): string => values[at % values.length]!
    return (
      `{"id":${at + 1},"text":${JSON.stringify(text)},"maybe":${at % 3 === 0 ? 'null' : JSON.stringify(text.slice(0, 20))}` +
      `,"whole":${pick(integers)},"part":${pick(decimals)},"flag":${at % 2 === 0},"at":"${pick(times)}","nested":${pick(nested)}}`
    )
  })
}

export function plainRows(count: number, first = 1): string[] {
  return Array.from({ length: count }, (_, at) => {
    const id = first + at
    return `{"id":${id},"name":"row ${id}","score":${id}.25,"even":${id % 2 === 0},"tags":["t${id % 7}"]}`
  })
}
