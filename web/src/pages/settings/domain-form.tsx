import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { answer, api, type Schemas } from '../../api/client.ts'
import { problemsOf } from '../../api/problems.ts'
import { Button } from '../../components/button.tsx'
import { DialogActions } from '../../components/dialog.tsx'
import { Field, TextAreaField } from '../../components/field.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import styles from './settings.module.css'

/** Told apart in both themes, and by most people who see colours differently. */
const COLORS = {
  '#3366cc': 'blue',
  '#2a9d5c': 'green',
  '#c98a14': 'amber',
  '#c0392b': 'red',
  '#8e5bb5': 'violet',
  '#1f8fa3': 'teal',
  '#c2558b': 'pink',
  '#7a828a': 'gray',
}

export function DomainForm({ domain, onDone }: { domain: Schemas['DomainListItem'] | null; onDone(): void }) {
  const [name, setName] = useState(domain?.name ?? '')
  const [description, setDescription] = useState(domain?.description ?? '')
  const [color, setColor] = useState(domain ? domain.color : '#3366cc')
  const queries = useQueryClient()
  const save = useMutation({
    mutationFn: () => {
      const body = { name, description: description.trim() || null, color }
      return domain
        ? answer(api.PUT('/api/domains/{domain_id}', { params: { path: { domain_id: domain.id } }, body }))
        : answer(api.POST('/api/domains', { body }))
    },
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['domains'] })
      onDone()
    },
  })
  const { byPath } = problemsOf(save.error, '')
  function submit(event: FormEvent) {
    event.preventDefault()
    save.mutate()
  }
  return (
    <form className="stack" onSubmit={submit}>
      <Field
        label="Name"
        required
        maxLength={200}
        autoFocus
        value={name}
        problem={byPath.name}
        onChange={(event) => setName(event.target.value)}
      />
      <TextAreaField
        label="Description"
        maxLength={1000}
        rows={2}
        value={description}
        onChange={(event) => setDescription(event.target.value)}
      />
      <ColorField color={color} onChange={setColor} />
      {Object.keys(byPath).length === 0 && <ErrorNotice error={save.error} />}
      <DialogActions>
        <Button look="primary" type="submit" busy={save.isPending}>
          {domain ? 'Save changes' : 'Create domain'}
        </Button>
        <Button onClick={onDone}>Cancel</Button>
      </DialogActions>
    </form>
  )
}

function ColorField({ color, onChange }: { color: string | null; onChange(color: string | null): void }) {
  return (
    <fieldset>
      <legend className={styles.legend}>Colour</legend>
      <div className={styles.swatches}>
        {Object.entries(COLORS).map(([value, words]) => (
          <button
            key={value}
            type="button"
            className={styles.swatch}
            aria-pressed={color?.toLowerCase() === value}
            aria-label={words}
            title={words}
            onClick={() => onChange(value)}
          >
            <span style={{ background: value }} />
          </button>
        ))}
        <input
          type="color"
          className={styles.picker}
          aria-label="Another colour"
          title="Another colour"
          value={color ?? '#ffffff'}
          onChange={(event) => onChange(event.target.value)}
        />
        <Button look="quiet" aria-pressed={color === null} onClick={() => onChange(null)}>
          None
        </Button>
      </div>
    </fieldset>
  )
}
