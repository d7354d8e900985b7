import { QueryClient } from '@tanstack/react-query'
import { ApiError } from './client.ts'
import { getTokens, hasExpired, subscribe } from './session.ts'

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // What the server refuses it would refuse again; only a fault of its own or of the network may pass.
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status < 500),
    },
  },
})

/** Nothing of one person's may be shown to the next. After an expired session the page waits for the same person. */
subscribe(() => {
  if (getTokens() === null && !hasExpired()) queryClient.clear()
})
