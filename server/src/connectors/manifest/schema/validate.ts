/**
 * Values against a JSON schema of a stranger. Its regular expressions run under a deadline, and nothing outside of the
 * schema is loaded.
 */
import { Ajv, type ErrorObject } from 'ajv'
import type { Json } from '../../../json/json.ts'
import type { Dict } from '../component.ts'
import { boundedRegex } from '../template/regex.ts'
import { TemplateError } from '../template/values.ts'

const MOST_SCHEMA = 512 * 1024

/** What is wrong with the value, in a sentence without its content; null if nothing is. Throws for an unusable schema. */
export function schemaFault(schema: Dict, value: Json): string | null {
  if (JSON.stringify(schema).length > MOST_SCHEMA) throw new TemplateError('the schema of the settings is too large')
  const ajv = new Ajv({
    strict: false,
    validateFormats: false,
    // Public manifests break the meta-schema in harmless ways, such as a name twice in `required`, and must keep working.
    validateSchema: false,
    allErrors: false,
    verbose: true,
    logger: false,
    code: { regExp: Object.assign((pattern: string) => testable(pattern), { code: 'new RegExp' }) },
  })
  let validate: ReturnType<typeof ajv.compile>
  try {
    const { $schema: _schema, $id: _id, ...own } = schema
    validate = ajv.compile(own)
  } catch (error) {
    throw new TemplateError(
      `the schema of the settings cannot be used: ${error instanceof Error ? error.message.slice(0, 200) : ''}`,
    )
  }
  if (validate(value)) return null
  return describe(validate.errors?.[0])
}

function testable(pattern: string): { test(text: string): boolean } {
  const regex = boundedRegex(pattern)
  return { test: (text) => regex.exec(text) !== null }
}

function describe(error: ErrorObject | undefined): string {
  if (error === undefined) return 'they do not fit the schema'
  const place = error.instancePath === '' ? 'the settings' : error.instancePath.slice(1).replaceAll('/', '.')
  if (error.keyword === 'required') return `${place} need ${String(error.params.missingProperty)}`
  if (error.keyword === 'enum')
    return `${place} must be one of ${JSON.stringify(error.params.allowedValues).slice(0, 200)}`
  if (error.keyword === 'pattern') return `${place} ${patternAdvice(error)}`
  return `${place} ${error.message ?? 'does not fit the schema'}`
}

const DATES = ['2024-01-31T00:00:00Z', '2024-01-31', '2024-01-31T00:00:00.000Z', '2024-01-31 00:00:00']

/** What the manifest says in words, an example of it, or a date that fits: few people read patterns. */
function patternAdvice({ parentSchema, params, message }: ErrorObject): string {
  const { pattern_descriptor: words, examples } = (parentSchema ?? {}) as Dict
  if (typeof words === 'string' && words !== '') return `must look like ${words.slice(0, 100)}`
  const regex = boundedRegex(String(params.pattern))
  const known = [...(Array.isArray(examples) ? examples : []), ...DATES]
  const example = known.find((each) => typeof each === 'string' && each.length < 100 && regex.exec(each) !== null)
  return example === undefined ? (message ?? 'does not fit the schema') : `must look like ${JSON.stringify(example)}`
}
