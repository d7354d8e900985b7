/**
 * Validation of a custom source. The code is parsed in one cell. Only if its streams cannot be determined statically,
 * and it is otherwise valid, get_streams is run in a second cell, without network. The result is checked like
 * everything else from a cell: the parser is native code that has just read an attacker's text.
 */

import type { Json } from '../json/json.ts'
import { DYNAMIC_STREAMS } from './declaration.ts'
import { NetworkMissing } from './failure.ts'
import { callInteractive, type SourceInput } from './interactive.ts'
import { readStreams } from './preview.ts'

interface ValidationItem {
  line: number
  column: number
  message: string
  severity: 'error' | 'warning'
}

export interface ExtractedSchema {
  config_class_name: string | null
  config_fields: { name: string; type_hint: string | null; required: boolean }[]
  auth_class_name: string | null
  auth_type: string | null
}

export interface ValidationResult {
  valid: boolean
  errors: ValidationItem[]
  warnings: ValidationItem[]
  extracted_source_name: string | null
  extracted_streams: string[] | null
  extracted_schema: ExtractedSchema
  /** No run begins without the required settings, so that no pipeline needs to be saved without them. */
  settings_enforced: boolean
}

const VALIDATION_SECONDS = 10
const MAX_STREAMS = 1000
const MAX_FIELDS = 500
const LONGEST_NAME = 500
const MAX_FINDINGS = 500
const LONGEST_FINDING = 4000
const NO_SCHEMA: ExtractedSchema = {
  config_class_name: null,
  config_fields: [],
  auth_class_name: null,
  auth_type: null,
}

export async function validateCode(
  code: string,
  source_name?: string | null,
  options: Omit<SourceInput, 'code' | 'egress' | 'authentication' | 'config'> = {},
): Promise<ValidationResult> {
  const input: SourceInput = { wall_seconds: VALIDATION_SECONDS, ...options, code }
  const { result, failure } = await callInteractive(input, { op: 'validate', source_name: source_name ?? null })
  if (failure) return refuse(`the code cannot be read: ${failure.message}`)
  const report = readReport(result)
  if (report === null) return refuse('the code cannot be read: the validation did not return a valid result')
  const { streams_need_run, ...validation } = report
  return limitStreams(validation.valid && streams_need_run ? await addStreams(validation, input) : validation)
}

/** They are in every list of sources, so they are limited. */
function limitStreams(validation: ValidationResult): ValidationResult {
  const streams = validation.extracted_streams ?? []
  const long = streams.find((name) => name.length > LONGEST_NAME)
  if (streams.length <= MAX_STREAMS && long === undefined) return validation
  const message =
    long === undefined
      ? `get_streams returns ${streams.length} streams; at most ${MAX_STREAMS} are allowed`
      : `get_streams returns a stream whose name has ${long.length} characters; at most ${LONGEST_NAME} are allowed`
  return { ...refuse(message), warnings: validation.warnings }
}

async function addStreams(validation: ValidationResult, input: SourceInput): Promise<ValidationResult> {
  const { result, failure } = await callInteractive(input, { op: 'streams' })
  if (failure === null) return { ...validation, extracted_streams: readStreams(result) }
  if (failure instanceof NetworkMissing) {
    const message =
      'get_streams sends requests, so the streams are only known with credentials: they are treated as dynamic'
    const warnings = [...validation.warnings, item(message, 'warning')]
    return { ...validation, warnings, extracted_streams: [DYNAMIC_STREAMS] }
  }
  return { ...refuse(`get_streams failed: ${failure.message}`), warnings: validation.warnings }
}

function item(message: string, severity: ValidationItem['severity']): ValidationItem {
  return { line: 1, column: 0, message: message.slice(0, LONGEST_FINDING), severity }
}

function refuse(message: string): ValidationResult {
  return {
    valid: false,
    errors: [item(message, 'error')],
    warnings: [],
    extracted_source_name: null,
    extracted_streams: null,
    extracted_schema: NO_SCHEMA,
    settings_enforced: false,
  }
}

type Fields = { [key: string]: Json }

function readReport(value: Json): (ValidationResult & { streams_need_run: boolean }) | null {
  if (!isFields(value)) return null
  const errors = readItems(value.errors, 'error')
  const warnings = readItems(value.warnings, 'warning')
  const schema = readSchema(value.extracted_schema)
  if (errors === null || warnings === null || schema === null) return null
  const streams = value.extracted_streams
  return {
    valid: value.valid === true && errors.length === 0,
    errors,
    warnings,
    extracted_source_name: nameOrNull(value.extracted_source_name),
    extracted_streams: Array.isArray(streams) ? streams.filter((name) => typeof name === 'string') : null,
    extracted_schema: schema,
    settings_enforced: value.settings_enforced === true,
    streams_need_run: value.streams_need_run === true,
  }
}

function isFields(value: Json | undefined): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function nameOrNull(value: Json | undefined): string | null {
  return typeof value === 'string' ? value.slice(0, LONGEST_NAME) : null
}

/** A valid position, even if the report is not honest. */
function readPosition(value: Json | undefined, least: number): number {
  return typeof value === 'number' && Number.isInteger(value) && value >= least && value < 2 ** 31 ? value : least
}

function readItems(value: Json | undefined, severity: ValidationItem['severity']): ValidationItem[] | null {
  if (!Array.isArray(value)) return null
  return value.slice(0, MAX_FINDINGS).map((each) => {
    const { line, column, message } = isFields(each) ? each : {}
    const text = typeof message === 'string' ? message.slice(0, LONGEST_FINDING) : ''
    return { line: readPosition(line, 1), column: readPosition(column, 0), message: text, severity }
  })
}

function readSchema(value: Json | undefined): ExtractedSchema | null {
  if (!isFields(value) || !Array.isArray(value.config_fields)) return null
  return {
    config_class_name: nameOrNull(value.config_class_name),
    config_fields: value.config_fields
      .filter(isFields)
      .slice(0, MAX_FIELDS)
      .map((field) => ({
        name: String(field.name).slice(0, LONGEST_NAME),
        type_hint: nameOrNull(field.type_hint),
        required: field.required === true,
      })),
    auth_class_name: nameOrNull(value.auth_class_name),
    auth_type: nameOrNull(value.auth_type),
  }
}
