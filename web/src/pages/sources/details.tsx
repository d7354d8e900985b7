/** The name and description of a source, and the way to delete it. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { ConfirmByTyping } from '../../components/confirm-by-typing.tsx'
import { Field } from '../../components/field.tsx'
import { type AuthoredSource, deleteSource } from './authored.ts'
import type { DraftState } from './draft.ts'
import styles from './sources.module.css'

interface Props {
  source: AuthoredSource
  state: DraftState
  may: boolean
  /** By how many pipelines. */
  used: number
}

export function Details({ source, state: { draft, change, settle }, may, used }: Props) {
  const [asked, setAsked] = useState(false)
  const remove = useDelete(source, () => settle({ ...draft, ...toSaved(source) }))
  const question = {
    title: `Delete ${source.name}`,
    action: 'Delete source',
    onConfirm: () => remove.mutate(),
    onClose: () => setAsked(false),
    busy: remove.isPending,
    error: remove.error,
  }
  return (
    <div className={styles.details}>
      <Field
        label="Name"
        maxLength={200}
        readOnly={!may}
        value={draft.name}
        onChange={(event) => change({ name: event.target.value })}
      />
      <Field
        label="Description"
        maxLength={1000}
        readOnly={!may}
        value={draft.description}
        onChange={(event) => change({ description: event.target.value })}
      />
      <Field label="Source name" readOnly value={source.source_name} hint="Pipelines refer to it by this name." />
      {may && (
        <div>
          <Button look="danger" onClick={() => setAsked(true)}>
            Delete source
          </Button>
        </div>
      )}
      {asked && used === 0 && (
        <Confirm {...question}>
          <p>Its code goes with all of its versions. No pipeline uses it.</p>
        </Confirm>
      )}
      {asked && used > 0 && (
        <ConfirmByTyping {...question} word={source.source_name}>
          <p>
            Its code goes with all of its versions. {used === 1 ? 'One pipeline uses' : `${used} pipelines use`} it; the
            next run of {used === 1 ? 'it' : 'each'} fails and says that the source is gone.
          </p>
        </ConfirmByTyping>
      )}
    </div>
  )
}

function useDelete(source: AuthoredSource, onDeleted: () => void) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  return useMutation({
    mutationFn: () => deleteSource(source.language, source.id),
    onSuccess: async () => {
      onDeleted()
      await navigate({ to: '/sources', ignoreBlocker: true })
      queries.removeQueries({ queryKey: ['sources', source.language, source.id] })
      await queries.invalidateQueries({ queryKey: ['sources'] })
    },
  })
}

function toSaved({ name, description, code }: AuthoredSource) {
  return { name, description: description ?? '', code }
}
