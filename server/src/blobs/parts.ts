/**
 * Parts: the blobs that the stage of a run and its output consist of. What a part says about itself comes from an
 * executor, so it is believed only as far as the blob agrees with it.
 */

/** A part as a row lists it. */
export interface StoredPart {
  key: string
  /** Of the plain bytes, as a download has them. */
  size: number
  /**
   * The size of the blob, if it holds the bytes compressed (seek-table.ts). Absent: it holds the bytes themselves, as
   * formats that are compressed already do, and everything that older versions stored.
   */
  stored_bytes?: number
}

/** What the parts take in the store. */
export const sumStored = (parts: readonly StoredPart[]): number =>
  parts.reduce((sum, { size, stored_bytes }) => sum + (stored_bytes ?? size), 0)

/** The blob of a part does not hold what its row says: it is truncated, corrupted, or was never right. */
export class DamagedPart extends Error {}
