/**
 * JSON Schemas that are types too: TypeBox's builders, as far as the service uses them. The types are TypeBox's own. At run
 * time TypeBox is 680 files, more than a third of what a process would load before it can start, to make objects as plain
 * as these.
 */
import type { Type as TypeBox } from 'typebox'

export type { Static, TObject, TProperties, TSchema } from 'typebox'

type Schema = Record<string, unknown>

/** Not part of the schema: it only tells the object around it what is required. */
const OPTIONAL = '~optional'

const scalar =
  (type: string) =>
  (options?: Schema): Schema => ({ type, ...options })

const builders = {
  Null: scalar('null'),
  Boolean: scalar('boolean'),
  Integer: scalar('integer'),
  Number: scalar('number'),
  String: scalar('string'),
  Unknown: (options?: Schema): Schema => ({ ...options }),
  Unsafe: (schema: Schema): Schema => copy(schema),
  Literal: (value: unknown, options?: Schema): Schema => ({ type: typeof value, const: value, ...options }),
  Enum: (values: readonly unknown[], options?: Schema): Schema => ({ enum: values, ...options }),
  Array: (items: Schema, options?: Schema): Schema => ({ type: 'array', items, ...options }),
  Union: (anyOf: Schema[], options?: Schema): Schema => ({ anyOf, ...options }),
  Optional: (schema: Schema): Schema => Object.defineProperty(copy(schema), OPTIONAL, { value: true }),
  Object(properties: Record<string, Schema>, options?: Schema): Schema {
    const required = Object.keys(properties).filter((name) => !Object.hasOwn(properties[name]!, OPTIONAL))
    return { type: 'object', ...(required.length > 0 && { required }), properties, ...options }
  },
  /** As of TypeBox: what else was said of the object is not said of this one. */
  Partial: ({ properties }: Schema): Schema =>
    builders.Object(
      Object.fromEntries(
        Object.entries(properties as Record<string, Schema>).map(([name, each]) => [name, builders.Optional(each)]),
      ),
    ),
}

const copy = (schema: Schema): Schema => Object.defineProperties({}, Object.getOwnPropertyDescriptors(schema))

export const Type = builders as unknown as Pick<typeof TypeBox, keyof typeof builders>
