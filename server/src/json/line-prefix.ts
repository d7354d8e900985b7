/** The first records of a page: lines end with a newline, and none contains one. */
export function cutPrefix<P extends { bytes: Buffer; records: number }>(page: P, records: number): P {
  if (page.records <= records) return page
  let end = 0
  for (let line = 0; line < records; line++) end = page.bytes.indexOf(10, end) + 1
  return { ...page, bytes: page.bytes.subarray(0, end), records }
}
