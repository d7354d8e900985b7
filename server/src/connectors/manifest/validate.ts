/** What a manifest gives before it has settings: its streams, what is wrong with them, and the schema of its settings. */
import { openLocator, type Position } from './locate.ts'
import { declaredStreams, judgeManifest, loadManifest } from './manifest.ts'
import { ManifestError } from './problems.ts'

export interface ManifestFindings {
  runs: 'whole' | 'part' | 'no'
  /** Those that run. */
  streams: string[]
  dynamic: boolean
  findings: Array<{ line: number; column: number; message: string; severity: 'error' | 'warning' }>
  settings_schema: string
}

const MOST_FINDINGS = 200
const MOST_SCHEMA = 1024 * 1024

export function validateManifest(text: string): ManifestFindings {
  try {
    const manifest = loadManifest(text)
    const { runs, reasons } = judgeManifest(() => manifest)
    const { streams, dynamic } = declaredStreams(manifest)
    const schema = JSON.stringify(manifest.settings)
    const severity = runs === 'no' ? 'error' : 'warning'
    return {
      runs,
      streams,
      dynamic,
      findings: findingsOf(text, reasons, severity),
      settings_schema: schema.length > MOST_SCHEMA ? '{}' : schema,
    }
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error
    const { line, column, message } = error
    const at: Position =
      line === null ? openLocator(text).locate(message) : { line, column: Math.max(0, (column ?? 1) - 1) }
    return {
      runs: 'no',
      streams: [],
      dynamic: false,
      findings: [{ ...at, message, severity: 'error' }],
      settings_schema: '{}',
    }
  }
}

function findingsOf(text: string, reasons: string[], severity: 'error' | 'warning'): ManifestFindings['findings'] {
  if (reasons.length === 0) return []
  const locator = openLocator(text)
  return reasons
    .slice(0, MOST_FINDINGS)
    .map((reason) => ({ ...locator.locate(reason), message: reason.slice(0, 2000), severity }))
}
