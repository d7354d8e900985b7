import type { IconName } from './icon.tsx'

/** Where the rail leads. */
export interface Place {
  to: string
  label: string
  icon: IconName
}
