import { Type } from '../../schema.ts'
import { Description, Name, Nullable, Paging, patternOf, Timestamp, Uuid } from './common.ts'

const Color = Type.String({
  pattern: patternOf('^#[0-9A-Fa-f]{6}$', 'must have the form #RRGGBB, such as #3366cc'),
  description: '`#RRGGBB`',
})

export const CreateDomain = Type.Object({
  name: Name,
  description: Type.Optional(Nullable(Description)),
  color: Type.Optional(Nullable(Color)),
})
export const UpdateDomain = Type.Partial(CreateDomain)

const fields = {
  id: Uuid,
  name: Type.String(),
  description: Nullable(Type.String()),
  color: Nullable(Type.String()),
  created_at: Timestamp,
}
export const DomainView = Type.Object({ ...fields, updated_at: Nullable(Timestamp) })
export const DomainItem = Type.Object({
  ...fields,
  pipeline_count: Type.Optional(Type.Integer({ description: 'Only with `include_counts=true`' })),
})

export const DomainList = Type.Object({ ...Paging, include_counts: Type.Boolean({ default: false }) })
export const DomainParams = Type.Object({ domain_id: Uuid })
