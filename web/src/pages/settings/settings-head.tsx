import type { ReactNode } from 'react'
import { type Above, PageHead } from '../../components/page-head.tsx'

interface Props {
  title: string
  lead?: ReactNode
  /** Where it is below, other than the settings. */
  parent?: Above
  children?: ReactNode
}

export function SettingsHead({ title, lead, parent, children }: Props) {
  return (
    <PageHead title={title} lead={lead} trail={[['Settings', { to: '/settings' }], ...(parent ? [parent] : [])]}>
      {children}
    </PageHead>
  )
}
