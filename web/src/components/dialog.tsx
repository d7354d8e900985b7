/**
 * A modal dialog. It is open while it is drawn; Escape and the close button ask its owner to take it away, and the focus
 * returns to where it was. A click beside it does nothing, because what was typed would be lost.
 */
import { type ReactNode, useId, useLayoutEffect, useRef } from 'react'
import { createPortal } from 'react-dom'
import { Button } from './button.tsx'
import styles from './dialog.module.css'
import { Icon } from './icon.tsx'

interface Props {
  title: string
  onClose(): void
  children: ReactNode
  /** For forms with long texts. */
  wide?: boolean
}

export function Dialog({ title, onClose, children, wide = false }: Props) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useLayoutEffect(() => {
    const element = dialog.current!
    element.showModal()
    // Closed before it is taken out of the page: only then does the browser give the focus back.
    return () => element.close()
  }, [])
  return createPortal(
    <dialog
      ref={dialog}
      className={`${styles.dialog} ${wide ? styles.wide : ''}`}
      aria-labelledby={id}
      onCancel={(event) => {
        if (event.target !== dialog.current) return
        event.preventDefault()
        onClose()
      }}
      // Events of a portal also reach the components around it, and those may be a form.
      onSubmit={(event) => event.stopPropagation()}
    >
      <header className={styles.head}>
        <h2 id={id}>{title}</h2>
        <Button look="quiet" aria-label="Close" onClick={onClose} className={styles.close!}>
          <Icon name="close" />
        </Button>
      </header>
      {children}
    </dialog>,
    document.body,
  )
}

/** The buttons at the end of a dialog; the one that acts comes first. */
export function DialogActions({ children }: { children: ReactNode }) {
  return <div className={styles.actions}>{children}</div>
}
