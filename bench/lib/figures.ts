/** Prints figures: a line of JSON for machines, readable for people. */
export function percentile(values: number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * p) / 100))]!
}

export const median = (values: number[]): number => percentile(values, 50)

export function report(what: string, figures: Record<string, number>, target: string): void {
  const rounded = Object.entries(figures).map(([name, value]) => `${name} ${Number(value.toPrecision(4))}`)
  console.log(`${what}: ${rounded.join(', ')}   (${target})`)
}
