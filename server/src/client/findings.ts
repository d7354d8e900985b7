/** What validation finds, as compilers write it: `file:line:column: severity: message`, which editors understand. */
import type { Output } from './output.ts'

export interface Finding {
  line: number
  /** From 0; shown from 1, as editors count. */
  column: number
  message: string
  severity: string
}

export function showFindings(output: Output, file: string, findings: Finding[]): void {
  for (const { line, column, severity, message } of findings)
    output.note(`${file}:${line}:${column + 1}: `, severityOf(severity), `: ${message}`)
}

const severityOf = (severity: string) => ({ style: severity === 'error' ? 'red' : 'yellow', text: severity }) as const

/**
 * The position in the author's file that an exception came from: the last line of its traceback that is in it. Python
 * marks the place with carets below the line, which it prints without its indentation.
 */
export function findPlace(code: string, logs: string[]): { line: number; column: number } | null {
  const lines = logs.flatMap((each) => each.split('\n'))
  const at = lines.findLastIndex((each) => /File "source\.py", line \d+/.test(each))
  if (at === -1) return null
  const line = Number(/line (\d+)/.exec(lines[at]!)![1])
  const indentation = /^\s*/.exec(code.split('\n')[line - 1] ?? '')![0].length
  const shown = lines[at + 1] ?? ''
  const marks = /^(\s*)[\^~]+\s*$/.exec(lines[at + 2] ?? '')
  const offset = marks === null ? 0 : Math.max(0, marks[1]!.length - /^\s*/.exec(shown)![0].length)
  return { line, column: indentation + offset }
}
