/**
 * Text of a service may hold anything that a tenant, a server or a log has put there. On a terminal an escape sequence
 * can move the cursor, rewrite what was shown, or type into the shell, so none is ever written.
 */

/** Sequences as a whole, so that no `[31m` remains of them: strings up to their end, CSI, and the short ones. */
const SEQUENCE =
  /(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]/g
/** Control characters (C0, C1, DEL) but tab and newline; and those that reverse or break a line unseen. */
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g

/** Keeps line breaks. */
export const cleanBlock = (text: string): string => text.replace(SEQUENCE, '').replace(CONTROL, '')

/** One line, whatever it was: a line break in a name must not pass for a line of ours. */
export const cleanLine = (text: string): string => cleanBlock(text.replace(/\r?\n|\r|\t/g, ' '))

/** JSON is data and loses nothing: what it does not escape by itself is escaped here. */
export const escapeControls = (json: string): string =>
  json.replace(CONTROL, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)

export const toJson = (value: unknown): string => escapeControls(JSON.stringify(value) ?? 'null')
