/** A button with a list of actions behind it. The browser's popover closes it with Escape and with a click elsewhere. */
import { type KeyboardEvent, type ReactNode, useId, useRef } from 'react'
import { Button } from './button.tsx'
import { Icon, type IconName } from './icon.tsx'
import styles from './menu.module.css'

export interface MenuItem {
  label: string
  onSelect(): void
  /** It destroys something. */
  danger?: boolean
  /** Why it cannot be chosen now. */
  disabled?: string | null | undefined
}

interface Props {
  /** What a screen reader calls the button: "Actions for Orders". */
  label: string
  items: readonly MenuItem[]
  icon?: IconName
  /** What the button shows beside its icon. */
  children?: ReactNode
}

export function Menu({ label, items, icon = 'more', children }: Props) {
  const id = useId()
  const button = useRef<HTMLButtonElement>(null)
  const list = useRef<HTMLDivElement>(null)
  function choose(item: MenuItem) {
    list.current!.hidePopover()
    item.onSelect()
  }
  return (
    <>
      <Button
        ref={button}
        look="quiet"
        popoverTarget={id}
        aria-haspopup="menu"
        aria-label={label}
        title={children ? undefined : label}
        className={children ? '' : styles.trigger!}
      >
        {children}
        <Icon name={icon} />
      </Button>
      <div
        ref={list}
        id={id}
        role="menu"
        aria-label={label}
        popover="auto"
        className={styles.menu}
        onBeforeToggle={(event) => event.newState === 'open' && place(list.current!, button.current!)}
        onToggle={(event) => event.newState === 'open' && entriesOf(list.current!)[0]?.focus()}
        onKeyDown={(event) => moveFocus(event, list.current!)}
      >
        {items.map((item) => (
          <button
            key={item.label}
            type="button"
            role="menuitem"
            tabIndex={-1}
            className={item.danger ? styles.danger : undefined}
            aria-disabled={item.disabled ? true : undefined}
            title={item.disabled ?? undefined}
            onClick={() => !item.disabled && choose(item)}
          >
            {item.label}
            {item.disabled && <span className={styles.why}>{item.disabled}</span>}
          </button>
        ))}
      </div>
    </>
  )
}

/** Below the button, ending where it ends; kept inside the window. */
function place(list: HTMLElement, button: HTMLElement): void {
  const { bottom, right } = button.getBoundingClientRect()
  list.style.setProperty('--top', `${bottom + 4}px`)
  list.style.setProperty('--right', `${Math.max(8, document.documentElement.clientWidth - right)}px`)
}

function entriesOf(list: HTMLElement): HTMLElement[] {
  return [...list.querySelectorAll<HTMLElement>('[role=menuitem]')]
}

function moveFocus(event: KeyboardEvent, list: HTMLElement): void {
  const entries = entriesOf(list)
  const at = entries.indexOf(document.activeElement as HTMLElement)
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key]
  if (event.key === 'Tab') list.hidePopover()
  if (to === undefined) return
  event.preventDefault()
  entries.at(to % entries.length)?.focus()
}
