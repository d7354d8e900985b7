import type { ComponentProps } from 'react'
import styles from './field.module.css'
import { Labelled, type Labels } from './labelled.tsx'

type Own<Element extends 'input' | 'select' | 'textarea'> = Labels &
  Omit<ComponentProps<Element>, 'id' | 'className'> & { label: string }

/** A labelled input with its hint and its problem beside it. */
export function Field({ label, hint, problem, className, ...input }: Own<'input'>) {
  return (
    <Labelled {...{ label, hint, problem, className: className ?? '' }}>
      {(attributes) => <input {...attributes} {...input} />}
    </Labelled>
  )
}

/** The options are its children. */
export function SelectField({ label, hint, problem, className, ...select }: Own<'select'>) {
  return (
    <Labelled {...{ label, hint, problem, className: className ?? '' }}>
      {(attributes) => <select {...attributes} {...select} />}
    </Labelled>
  )
}

export function TextAreaField({ label, hint, problem, className, ...area }: Own<'textarea'>) {
  return (
    <Labelled {...{ label, hint, problem, className: className ?? '' }}>
      {(attributes) => <textarea {...attributes} className={`${attributes.className} ${styles.area}`} {...area} />}
    </Labelled>
  )
}
