/** A frame of a traceback that is in the person's own code; the cell calls the file so. */
export const FRAME = /File "source\.py", line (\d+)/g

/** Where it happened: the last such frame. */
export function lastLineOf(logs: readonly string[]): number | null {
  const frames = [...logs.join('\n').matchAll(FRAME)]
  return frames.length === 0 ? null : Number(frames.at(-1)![1])
}
