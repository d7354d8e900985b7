import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { answer, api } from '../../api/client.ts'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { DeliveryTable } from './delivery-table.tsx'
import { deliveriesQuery } from './queries.ts'

export function Deliveries({ id }: { id: string }) {
  const deliveries = useQuery(deliveriesQuery(id))
  const queries = useQueryClient()
  const resend = useMutation({
    mutationFn: (delivery_id: string) =>
      answer(api.POST('/api/webhooks/{id}/deliveries/{delivery_id}/resend', { params: { path: { id, delivery_id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['webhooks', id, 'deliveries'] }),
  })
  return (
    <section>
      <h2>Deliveries</h2>
      {deliveries.isPending && <Skeleton rows={4} />}
      <ErrorNotice error={deliveries.error ?? resend.error} onRetry={deliveries.refetch} />
      {deliveries.data?.length === 0 && (
        <p className="faint">Nothing was sent yet. A test shows whether the receiver can be reached.</p>
      )}
      {deliveries.data && deliveries.data.length > 0 && (
        <DeliveryTable deliveries={deliveries.data} busy={resend.isPending} onResend={(sent) => resend.mutate(sent)} />
      )}
    </section>
  )
}
