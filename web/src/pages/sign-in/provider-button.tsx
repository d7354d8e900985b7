import { useMutation } from '@tanstack/react-query'
import { answer, api } from '../../api/client.ts'
import { installation } from '../../api/installation.ts'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/notice.tsx'

/** Nothing where no identity provider is configured. */
export function ProviderButton({ invitation }: { invitation?: string }) {
  const start = useMutation({
    mutationFn: () => answer(api.GET('/api/auth/idp', { params: { query: invitation ? { invitation } : {} } })),
    onSuccess: ({ redirect_url }) => location.assign(redirect_url),
  })
  if (!installation.provider) return null
  return (
    <>
      <ErrorNotice error={start.error} />
      <Button busy={start.isPending || start.isSuccess} onClick={() => start.mutate()}>
        Sign in with your organization’s identity provider
      </Button>
    </>
  )
}
