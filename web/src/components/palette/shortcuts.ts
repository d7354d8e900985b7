/**
 * The keys that work on every page. Ctrl or ⌘ K always opens the palette; keys without it can be switched off, because they
 * get in the way of people who speak to their computer (WCAG 2.1.4).
 */
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import type { Place } from '../places.ts'

const OFF = 'sluice.shortcuts.off'
/** How long after g the second key may come. */
const SEQUENCE_MS = 1500

export function areShortcutsOn(): boolean {
  return localStorage.getItem(OFF) === null
}

export function switchShortcuts(on: boolean): void {
  if (on) localStorage.removeItem(OFF)
  else localStorage.setItem(OFF, 'yes')
}

/** Each place gets the first letter of its name that is still free. */
export function keysOf(places: readonly Place[]): Map<string, Place> {
  const keys = new Map<string, Place>()
  for (const place of places) {
    const key = [...place.label.toLowerCase()].find((letter) => !keys.has(letter))
    if (key !== undefined) keys.set(key, place)
  }
  return keys
}

/** Typing, or a dialog is open. */
export function isTaken({ target, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean {
  if (ctrlKey || metaKey || altKey || !areShortcutsOn()) return true
  if (document.querySelector('dialog[open]')) return true
  return target instanceof HTMLElement && (target.isContentEditable || target.matches('input, textarea, select'))
}

export function useShortcuts(places: readonly Place[], open: (what: 'palette' | 'shortcuts') => void): void {
  const navigate = useNavigate()
  const began = useRef(0)
  const latest = useRef({ places, open })
  latest.current = { places, open }
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const { places, open } = latest.current
      const key = event.key.toLowerCase()
      if (key === 'k' && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey) {
        event.preventDefault()
        open('palette')
        return
      }
      if (isTaken(event)) return
      const place = Date.now() - began.current < SEQUENCE_MS ? keysOf(places).get(key) : undefined
      began.current = key === 'g' && place === undefined ? Date.now() : 0
      if (place !== undefined) void navigate({ to: place.to })
      else if (event.key === '?') open('shortcuts')
      else return
      event.preventDefault()
    }
    document.addEventListener('keydown', press)
    return () => document.removeEventListener('keydown', press)
  }, [navigate])
}
