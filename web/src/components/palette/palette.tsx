/** Finds pages, pipelines, runs and actions by what one types. A combobox in a dialog; the field keeps the focus. */
import { type KeyboardEvent, useEffect, useId, useLayoutEffect, useRef, useState } from 'react'
import { createPortal } from 'react-dom'
import { Icon } from '../icon.tsx'
import type { Place } from '../places.ts'
import { type Command, useCommands } from './commands.ts'
import styles from './palette.module.css'

interface Props {
  places: readonly Place[]
  onClose(): void
  onShortcuts(): void
}

export default function Palette({ places, onClose, onShortcuts }: Props) {
  const dialog = useRef<HTMLDialogElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const id = useId()
  const [typed, setTyped] = useState('')
  const [at, setAt] = useState(0)
  const [problem, setProblem] = useState<string | null>(null)
  const commands = useCommands(typed, places, onShortcuts)
  const chosen = Math.min(at, commands.length - 1)
  useLayoutEffect(() => {
    const element = dialog.current!
    element.showModal()
    return () => element.close()
  }, [])
  useEffect(() => {
    list.current?.querySelector(`[id="${id}-${chosen}"]`)?.scrollIntoView({ block: 'nearest' })
  }, [chosen, id])

  async function run(command: Command | undefined) {
    if (command === undefined) return
    setProblem(null)
    try {
      // What asks the server may be refused, and then says so here.
      await command.run()
      onClose()
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error))
    }
  }
  function press(event: KeyboardEvent) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (event.key === 'Enter') void run(commands[chosen])
    else if (step !== undefined && commands.length > 0) setAt((chosen + step + commands.length) % commands.length)
    else return
    event.preventDefault()
  }
  return createPortal(
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape does the same
    <dialog
      ref={dialog}
      className={styles.palette}
      aria-label="Find anything"
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <div className={styles.box}>
        <div className={styles.field}>
          <Icon name="search" />
          <input
            role="combobox"
            aria-label="Find pages, pipelines, runs and actions"
            aria-expanded="true"
            aria-controls={id}
            aria-activedescendant={commands.length > 0 ? `${id}-${chosen}` : undefined}
            placeholder="Find a page, a pipeline, a run or an action"
            value={typed}
            onChange={(event) => {
              setTyped(event.target.value)
              setAt(0)
            }}
            onKeyDown={press}
            spellCheck={false}
            autoComplete="off"
          />
          <kbd>Esc</kbd>
        </div>
        {problem !== null && (
          <p role="alert" className={styles.problem}>
            {problem}
          </p>
        )}
        <div ref={list} id={id} role="listbox" aria-label="What was found" className={styles.list}>
          {commands.map((command, index) => (
            <Entry
              key={command.id}
              id={`${id}-${index}`}
              command={command}
              heads={command.group !== commands[index - 1]?.group}
              chosen={index === chosen}
              onPoint={() => setAt(index)}
              onRun={() => void run(command)}
            />
          ))}
        </div>
        {commands.length === 0 && <p className={styles.none}>Nothing has this name.</p>}
      </div>
    </dialog>,
    document.body,
  )
}

interface EntryProps {
  id: string
  command: Command
  /** The first of its group. */
  heads: boolean
  chosen: boolean
  onPoint(): void
  onRun(): void
}

function Entry({ id, command, heads, chosen, onPoint, onRun }: EntryProps) {
  const { group, label, icon, hint } = command
  return (
    <>
      {heads && (
        <div role="presentation" className={styles.group}>
          {group}
        </div>
      )}
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the field has the keys */}
      {/* biome-ignore lint/a11y/useFocusableInteractive: the field keeps the focus */}
      <div
        id={id}
        role="option"
        aria-selected={chosen}
        className={styles.entry}
        onPointerMove={onPoint}
        onPointerDown={(event) => event.preventDefault()}
        onClick={onRun}
      >
        <Icon name={icon} />
        <span className={styles.label} title={label}>
          {label}
        </span>
        {hint && <span className={styles.hint}>{hint}</span>}
      </div>
    </>
  )
}
