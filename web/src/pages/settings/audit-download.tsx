import { useMutation } from '@tanstack/react-query'
import { api } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/notice.tsx'
import type { AuditFilters } from './queries.ts'

/** All lines that match, as a CSV file. A link could not send the token. */
export function AuditDownload({ filters }: { filters: AuditFilters }) {
  const download = useMutation({
    mutationFn: async () => {
      const query = { ...filters, format: 'csv' as const }
      const { data } = await api.GET('/api/audit', { params: { query }, parseAs: 'blob' })
      const address = URL.createObjectURL(data as unknown as Blob)
      const link = document.createElement('a')
      link.href = address
      link.download = 'audit.csv'
      link.click()
      // The download holds its own reference once it has begun.
      setTimeout(() => URL.revokeObjectURL(address), 60_000)
    },
  })
  return (
    <>
      <ErrorNotice error={download.error} />
      <Button busy={download.isPending} onClick={() => download.mutate()}>
        Download as CSV
      </Button>
    </>
  )
}
