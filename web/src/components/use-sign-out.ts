import { useNavigate } from '@tanstack/react-router'
import { api } from '../api/client.ts'
import { signOut } from '../api/session.ts'

export function useSignOut(): () => Promise<void> {
  const navigate = useNavigate()
  return async () => {
    // The session also ends here if the server cannot be told.
    await api.POST('/api/auth/logout').catch(() => {})
    signOut()
    await navigate({ to: '/sign-in' })
  }
}
