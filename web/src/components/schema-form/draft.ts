import { useState } from 'react'

/**
 * What is typed into a field whose value has another form: lines of a list, rows of a map, JSON. It is kept as typed, and
 * drawn anew only if the value changes from outside.
 */
export function useDraft<Draft>(
  value: unknown,
  onChange: (value: unknown) => void,
  toDraft: (value: unknown) => Draft,
): [Draft, (draft: Draft, value: unknown) => void] {
  const [draft, setDraft] = useState(() => toDraft(value))
  const [known, setKnown] = useState(value)
  if (!isSame(known, value)) {
    setKnown(value)
    setDraft(toDraft(value))
  }
  function change(typed: Draft, meant: unknown) {
    setDraft(typed)
    setKnown(meant)
    onChange(meant)
  }
  return [draft, change]
}

function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other)
}
