import { Button } from '../../components/button.tsx'
import { Dialog, DialogActions } from '../../components/dialog.tsx'

/** Unsaved changes are about to be left behind. */
export function LeaveDialog({ onStay, onLeave }: { onStay(): void; onLeave(): void }) {
  return (
    <Dialog title="Leave without saving?" onClose={onStay}>
      <p className="soft">Your changes stay in this tab as a draft, without secrets, until you save or discard them.</p>
      <DialogActions>
        <Button look="primary" onClick={onStay}>
          Stay here
        </Button>
        <Button onClick={onLeave}>Leave</Button>
      </DialogActions>
    </Dialog>
  )
}
