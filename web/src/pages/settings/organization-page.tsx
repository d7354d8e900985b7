import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api } from '../../api/client.ts'
import { useMay, usePerson } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { CopyButton } from '../../components/copy-button.tsx'
import { Field } from '../../components/field.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import { membersQuery } from '../people/queries.ts'
import styles from './settings.module.css'
import { SettingsHead } from './settings-head.tsx'

export function OrganizationPage() {
  const { organization, role, id } = usePerson()
  const owner = useQuery(membersQuery).data?.find((member) => member.role === 'owner')
  return (
    <>
      <SettingsHead title="Organization" />
      <NameForm key={organization.name} />
      <dl className={styles.facts}>
        <dt>Your role</dt>
        <dd>{role}</dd>
        <dt>Owner</dt>
        <dd>
          {owner && (
            <Link to="/people/$id" params={{ id: owner.id }}>
              {owner.name}
            </Link>
          )}
          {owner?.id === id && <span className="faint"> (you)</span>}
        </dd>
        <dt>Slug</dt>
        <dd>
          <code>{organization.slug}</code>
        </dd>
        <dt>Id</dt>
        <dd>
          <code>{organization.id}</code> <CopyButton look="quiet" text={organization.id} label="Copy" />
        </dd>
      </dl>
      {owner?.id === id && (
        <p className={`${styles.note} soft`}>
          To transfer the ownership, open the person under <Link to="/people">People</Link>.
        </p>
      )}
    </>
  )
}

function NameForm() {
  const { organization } = usePerson()
  const may = useMay('organization:write')
  const [name, setName] = useState(organization.name)
  const queries = useQueryClient()
  const rename = useMutation({
    mutationFn: () => api.PUT('/api/organization', { body: { name } }),
    onSuccess: () =>
      Promise.all([
        queries.invalidateQueries({ queryKey: ['me'] }),
        queries.invalidateQueries({ queryKey: ['organizations'] }),
      ]),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    rename.mutate()
  }
  return (
    <form className={styles.form} onSubmit={submit}>
      <Field
        label="Name"
        required
        maxLength={200}
        value={name}
        readOnly={!may}
        hint={may ? undefined : 'Admins and the owner change the name.'}
        onChange={(event) => setName(event.target.value)}
      />
      <ErrorNotice error={rename.error} />
      {may && (
        <div className={styles.actions}>
          <Button
            look="primary"
            type="submit"
            busy={rename.isPending}
            disabled={name.trim() === '' || name === organization.name}
          >
            Rename
          </Button>
        </div>
      )}
    </form>
  )
}
