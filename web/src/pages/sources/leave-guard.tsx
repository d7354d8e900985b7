import { useBlocker } from '@tanstack/react-router'
import { Button } from '../../components/button.tsx'
import { Dialog, DialogActions } from '../../components/dialog.tsx'

interface Props {
  /** Read when the person leaves, so that a save that has just ended counts. */
  isDirty(): boolean
  onDiscard(): void
}

/** Asks before a page with unsaved changes is left. A reload asks nothing: the draft is still there afterwards. */
export function LeaveGuard({ isDirty, onDiscard }: Props) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => current.pathname !== next.pathname && isDirty(),
    enableBeforeUnload: false,
    withResolver: true,
  })
  if (blocker.status !== 'blocked') return null
  return (
    <Dialog title="Leave without saving?" onClose={blocker.reset}>
      <p>The changes stay in this browser as a draft, and are here when you come back.</p>
      <DialogActions>
        <Button look="primary" onClick={blocker.proceed}>
          Leave
        </Button>
        <Button
          look="danger"
          onClick={() => {
            onDiscard()
            blocker.proceed()
          }}
        >
          Discard changes
        </Button>
        <Button onClick={blocker.reset}>Stay</Button>
      </DialogActions>
    </Dialog>
  )
}
