import { unescapeField } from '../../src/connectors/types/tsv.ts'

/** The values of all rows. */
export function parseRows(bytes: Buffer): (string | null)[][] {
  return bytes
    .toString()
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split('\t').map(unescapeField))
}
