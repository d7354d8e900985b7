/**
 * A moment on two clocks. The wall clock may be set back, and the monotonic one stops while a machine is suspended: the
 * larger of the two ages is never too small.
 */
export interface Moment {
  wall: number
  monotonic: number
}

export const takeMoment = (): Moment => ({ wall: Date.now(), monotonic: performance.now() })

export const ageMs = ({ wall, monotonic }: Moment): number => Math.max(Date.now() - wall, performance.now() - monotonic)
