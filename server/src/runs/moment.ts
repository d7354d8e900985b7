/**
 * A moment by two clocks. The wall clock may be set back, and the monotonic one stands still while a machine is suspended:
 * of the two ages the larger is never too small.
 */
export interface Moment {
  wall: number
  monotonic: number
}

export const takeMoment = (): Moment => ({ wall: Date.now(), monotonic: performance.now() })

export const ageMs = ({ wall, monotonic }: Moment): number => Math.max(Date.now() - wall, performance.now() - monotonic)
