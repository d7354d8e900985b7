/** A description as connectors and authors write it: text, with code between backticks. */
export function Description({ text }: { text: string }) {
  return text.split('`').map((part, place) => (place % 2 === 1 ? <code key={place}>{part}</code> : part))
}
