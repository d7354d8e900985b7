/**
 * The bytes that JSON consists of, by name, and lookup tables. A scanner copies them into its own constants (`const {
 * QUOTE } = BYTES`): V8 folds those into the code, but reads an imported binding from memory every time, which costs a
 * scanner a third of its speed.
 */
export const BYTES = {
  TAB: 0x09,
  NEWLINE: 0x0a,
  RETURN: 0x0d,
  SPACE: 0x20,
  QUOTE: 0x22,
  PLUS: 0x2b,
  COMMA: 0x2c,
  MINUS: 0x2d,
  POINT: 0x2e,
  ZERO: 0x30,
  COLON: 0x3a,
  UPPER_E: 0x45,
  OPEN_BRACKET: 0x5b,
  BACKSLASH: 0x5c,
  CLOSE_BRACKET: 0x5d,
  LOWER_E: 0x65,
  LOWER_F: 0x66,
  LOWER_N: 0x6e,
  LOWER_T: 0x74,
  LOWER_U: 0x75,
  OPEN_BRACE: 0x7b,
  CLOSE_BRACE: 0x7d,
} as const

function tableOf(bytes: Iterable<number>): Uint8Array {
  const table = new Uint8Array(256)
  for (const byte of bytes) table[byte] = 1
  return table
}

const { QUOTE, BACKSLASH, SPACE, TAB, RETURN, NEWLINE } = BYTES
const controls = Array.from({ length: SPACE }, (_, byte) => byte)

/** 1 if the byte belongs to the class. */
export const TABLES = {
  /** Bytes that a string contains unescaped: everything except the quote, the backslash and control characters. */
  IS_PLAIN: tableOf([QUOTE, BACKSLASH, ...controls]).map((special) => 1 - special),
  IS_DIGIT: tableOf(Buffer.from('0123456789')),
  IS_HEX: tableOf(Buffer.from('0123456789abcdefABCDEF')),
  /** What may follow a backslash, apart from `u` and its four digits. */
  IS_ESCAPE: tableOf(Buffer.from('"\\/bfnrt')),
  /** Whitespace between tokens within one line, where a newline ends the record. */
  IS_LINE_BLANK: tableOf([SPACE, TAB, RETURN]),
  /** Whitespace between tokens of a whole document. */
  IS_BLANK: tableOf([SPACE, TAB, RETURN, NEWLINE]),
} as const
