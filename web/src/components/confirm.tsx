import type { FormEvent, ReactNode } from 'react'
import { Button } from './button.tsx'
import { Dialog, DialogActions } from './dialog.tsx'
import { ErrorNotice } from './notice.tsx'

export interface ConfirmProps {
  title: string
  /** What will happen, in a sentence. */
  children: ReactNode
  /** What the button says: "Revoke key". */
  action: string
  onConfirm(): void
  onClose(): void
  busy?: boolean
  error?: unknown
  /** The action may not be taken yet. */
  locked?: boolean
}

/** Asks before something that cannot be undone but loses little. See confirm-by-typing.tsx for what loses more. */
export function Confirm({ title, children, action, onConfirm, onClose, busy, error, locked = false }: ConfirmProps) {
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!locked && !busy) onConfirm()
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {children}
        <ErrorNotice error={error} />
        <DialogActions>
          <Button look="danger" type="submit" busy={busy ?? false} disabled={locked}>
            {action}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </DialogActions>
      </form>
    </Dialog>
  )
}
