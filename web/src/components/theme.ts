/** Light, dark, or as the system is. public/theme.js applies the same before the first paint. */
import { useSyncExternalStore } from 'react'

export type Theme = 'system' | 'light' | 'dark'

const KEY = 'sluice.theme'
const system = matchMedia('(prefers-color-scheme: dark)')
const watchers = new Set<() => void>()

export function useTheme(): Theme {
  return useSyncExternalStore(watch, getTheme)
}

/** What is drawn now. */
export function useShade(): 'light' | 'dark' {
  return useSyncExternalStore(watch, () => shadeOf(getTheme()))
}

export function setTheme(theme: Theme): void {
  if (theme === 'system') localStorage.removeItem(KEY)
  else localStorage.setItem(KEY, theme)
  apply()
}

function getTheme(): Theme {
  const stored = localStorage.getItem(KEY)
  return stored === 'light' || stored === 'dark' ? stored : 'system'
}

function shadeOf(theme: Theme): 'light' | 'dark' {
  return theme === 'system' ? (system.matches ? 'dark' : 'light') : theme
}

function apply(): void {
  document.documentElement.dataset.theme = shadeOf(getTheme())
  for (const watcher of watchers) watcher()
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher)
  return () => watchers.delete(watcher)
}

system.addEventListener('change', apply)
addEventListener('storage', (event) => event.key === KEY && apply())
