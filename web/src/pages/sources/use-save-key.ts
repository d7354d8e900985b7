import { useEffect } from 'react'

/** Ctrl S or ⌘ S anywhere on the page; the editor has its own. */
export function useSaveKey(save: () => void): void {
  useEffect(() => {
    function press(event: KeyboardEvent) {
      if (event.key.toLowerCase() !== 's' || event.shiftKey || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      save()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  })
}
