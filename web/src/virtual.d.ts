declare module 'virtual:authentication-schemas' {
  import type { Schema } from './components/schema-form/schema.ts'

  /** The params of each authentication type; vite.config.ts takes them from the API's own description. */
  const schemas: Record<string, Schema>
  export default schemas
}

declare module 'virtual:pipeline-schemas' {
  import type { Schema } from './components/schema-form/schema.ts'

  /** `config.sync` and `config.run` of a pipeline. */
  const schemas: { sync: Schema; run: Schema }
  export default schemas
}
