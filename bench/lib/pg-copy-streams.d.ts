/** The package has no types; this is what the bench uses. */
declare module 'pg-copy-streams' {
  import type { Readable, Writable } from 'node:stream'
  import type { Submittable } from 'pg'

  const copyStreams: {
    to(text: string): Readable & Submittable
    from(text: string): Writable & Submittable
  }
  export default copyStreams
}
