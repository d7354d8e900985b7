import { type ComponentProps, useEffect, useRef, useState } from 'react'
import { Button } from './button.tsx'

interface Props extends Omit<ComponentProps<typeof Button>, 'onClick' | 'children'> {
  text: string
  /** What is copied, where more than one button stands on a page: "Copy the key". */
  label?: string
}

const SHOWN_MS = 2_000

/** Copies a text and says so in its own place. */
export function CopyButton({ text, label = 'Copy', ...button }: Props) {
  const [outcome, setOutcome] = useState<string | null>(null)
  const self = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    if (outcome === null) return
    const timer = setTimeout(() => setOutcome(null), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [outcome])
  async function copy() {
    setOutcome((await copyText(text, self.current!)) ? 'Copied' : 'Select the text and copy it yourself')
  }
  return (
    <Button {...button} ref={self} onClick={copy}>
      <span aria-live="polite">{outcome ?? label}</span>
    </Button>
  )
}

async function copyText(text: string, near: HTMLElement): Promise<boolean> {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text)
      return true
    }
  } catch {
    // Forbidden by the browser; the old way may still be allowed.
  }
  return copyBySelection(text, near)
}

/** The clipboard API exists only on https and localhost. Beside the button, because a dialog makes the rest of the page inert. */
function copyBySelection(text: string, near: HTMLElement): boolean {
  const area = document.createElement('textarea')
  area.value = text
  area.className = 'visually-hidden'
  near.after(area)
  area.select()
  try {
    return document.execCommand('copy')
  } finally {
    area.remove()
    near.focus()
  }
}
