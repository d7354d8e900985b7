/** Numbers become the text that they were where a double would lose digits of it. */
export function parseExactly(text: string): unknown {
  const keep = (_key: string, value: unknown, { source }: { source?: string } = {}): unknown =>
    typeof value === 'number' && source !== undefined && String(value) !== source ? source : value
  return JSON.parse(text, keep as Parameters<typeof JSON.parse>[1])
}
