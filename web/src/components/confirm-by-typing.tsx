import { useState } from 'react'
import { Confirm, type ConfirmProps } from './confirm.tsx'
import { Field } from './field.tsx'

interface Props extends Omit<ConfirmProps, 'locked'> {
  /** What has to be typed: the name of the thing. */
  word: string
}

/** Asks before something that cannot be undone and loses much, by having its name typed. */
export function ConfirmByTyping({ word, children, ...rest }: Props) {
  const [typed, setTyped] = useState('')
  return (
    <Confirm {...rest} locked={typed.trim() !== word.trim()}>
      {children}
      <Field
        label={`Type ${word} to confirm`}
        autoFocus
        autoComplete="off"
        spellCheck={false}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
    </Confirm>
  )
}
