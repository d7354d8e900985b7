/**
 * A manifest's YAML as plain values, within limits: size, depth, number of values, expanded aliases. Scalars are read as
 * PyYAML reads YAML 1.1, since that is what the authors of manifests tested with; dates stay text. Tags are refused.
 */
import { LineCounter, parseDocument } from 'yaml'
import type { Json } from '../../json/json.ts'
import { type Dict, isDict } from './component.ts'
import { ManifestError } from './problems.ts'
import { readPlainYaml } from './yaml/plain.ts'
import { SCALARS } from './yaml/scalars.ts'

const MOST_BYTES = 2 * 1024 * 1024
const MOST_VALUES = 400_000
const MOST_DEPTH = 100
/** Lines and commas: whoever needs more of them has more values than are allowed, and parsing them first would be slow. */
const MOST_SEPARATORS = 200_000
const MOST_ALIASES = 1000

/** Throws a ManifestError with the line and column of what is wrong. */
export function readManifest(text: string): Dict {
  if (Buffer.byteLength(text) > MOST_BYTES) throw new ManifestError(`the manifest is larger than ${MOST_BYTES} bytes`)
  if (separators(text) > MOST_SEPARATORS)
    throw new ManifestError(`the manifest holds more than ${MOST_SEPARATORS} values`)
  // Plain YAML has no aliases, and its depth is limited: it holds no more values than the text has separators.
  const plain = readPlainYaml(text)
  const value = plain ?? readAnyYaml(text)
  if (!isDict(value)) throw new ManifestError('the manifest is not a YAML mapping')
  if (plain === undefined) measure(value)
  return value
}

function readAnyYaml(text: string): unknown {
  const lines = new LineCounter()
  try {
    const document = parseDocument(text, {
      schema: 'failsafe',
      customTags: SCALARS,
      merge: true,
      uniqueKeys: true,
      prettyErrors: false,
      lineCounter: lines,
    })
    const fault = document.errors[0] ?? document.warnings[0]
    if (fault !== undefined) throw located(fault.message, fault.pos[0], lines)
    return document.toJS({ maxAliasCount: MOST_ALIASES })
  } catch (error) {
    throw readable(error)
  }
}

function separators(text: string): number {
  let count = 0
  for (const separator of ['\n', ','])
    for (let at = text.indexOf(separator); at !== -1; at = text.indexOf(separator, at + 1)) count++
  return count
}

function located(message: string, offset: number, lines: LineCounter): ManifestError {
  const { line, col } = lines.linePos(offset)
  const sentence = message.split('\n', 1)[0]!
  return new ManifestError(`the YAML is not valid: ${sentence} (line ${line}, column ${col})`, { line, column: col })
}

function readable(error: unknown): ManifestError {
  if (error instanceof ManifestError) return error
  if (error instanceof RangeError) return new ManifestError('the YAML is nested too deeply')
  if (error instanceof ReferenceError)
    return new ManifestError(`the YAML's aliases cannot be resolved: ${error.message}`)
  return new ManifestError('the YAML cannot be read')
}

/** Counts what a reader who follows every alias would see, so that shared values cannot explode later. */
function measure(root: unknown): void {
  let values = 0
  const visit = (value: unknown, depth: number): void => {
    if (++values > MOST_VALUES) throw new ManifestError(`the manifest holds more than ${MOST_VALUES} values`)
    if (depth > MOST_DEPTH) throw new ManifestError(`the manifest is nested more than ${MOST_DEPTH} levels deep`)
    if (Array.isArray(value)) for (const item of value) visit(item, depth + 1)
    else if (typeof value === 'object' && value !== null)
      for (const item of Object.values(value)) visit(item, depth + 1)
  }
  visit(root, 0)
}

/** A piece of YAML inside of a text, as PyYAML would load it; the text itself where it is not YAML. */
export function readYamlText(text: string): Json {
  if (text.length > MOST_BYTES) return text
  try {
    const document = parseDocument(text, { schema: 'failsafe', customTags: SCALARS, merge: true, prettyErrors: false })
    if (document.errors.length > 0 || document.warnings.length > 0) return text
    const value = document.toJS({ maxAliasCount: MOST_ALIASES }) as Json
    measure(value)
    return value
  } catch {
    return text
  }
}
