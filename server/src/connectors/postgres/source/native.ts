/** Whether a reading can offer its rows in binary form. */
import { NATIVE_VERSION, nativeOid } from '../shared/native-rows.ts'
import type { Session } from '../shared/session.ts'
import type { Projection } from './projection.ts'
import type { Relation } from './relation.ts'

/**
 * Asks the server which types the columns of the COPY have. That also locks the tables until the transaction ends, so
 * that the types stay what they are.
 */
export async function mayOfferNative(session: Session, relation: Relation, projection: Projection): Promise<boolean> {
  const { nativeList, columns } = projection
  if (nativeList === null || session.version < NATIVE_VERSION) return false
  const text = `SELECT ${nativeList} FROM ${relation.from} AS t LIMIT 0`
  const { fields } = await session.client.query({ text, queryMode: 'extended' } as unknown as { text: string })
  return (
    fields.length === columns.length &&
    columns.every(({ native }, index) => fields[index]!.dataTypeID === nativeOid(native?.type ?? 'text'))
  )
}
