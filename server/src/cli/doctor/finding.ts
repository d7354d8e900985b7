export type Part = 'database' | 'queue' | 'blobs' | 'sandbox' | 'egress' | 'keys' | 'disk' | 'clock' | 'versions'

export interface Finding {
  part: Part
  /** A problem stops something; a warning may do so later; unknown: it could not be looked at. */
  status: 'ok' | 'warning' | 'problem' | 'unknown'
  found: string
  advice?: string
}

export function worstOf(findings: readonly Finding[]): Finding['status'] {
  const order: Finding['status'][] = ['problem', 'warning', 'unknown']
  return order.find((status) => findings.some((finding) => finding.status === status)) ?? 'ok'
}

export const ok = (part: Part, found: string): Finding => ({ part, status: 'ok', found })
export const warning = (part: Part, found: string, advice: string): Finding => ({
  part,
  status: 'warning',
  found,
  advice,
})
export const problem = (part: Part, found: string, advice: string): Finding => ({
  part,
  status: 'problem',
  found,
  advice,
})

/** What a look that fails in an unforeseen way means: the part is not well. */
export async function lookAt(part: Part, advice: string, look: () => Promise<Finding[]>): Promise<Finding[]> {
  try {
    return await look()
  } catch (error) {
    return [problem(part, (error as Error).message || String(error), advice)]
  }
}
