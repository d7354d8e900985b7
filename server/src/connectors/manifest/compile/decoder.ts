/** Decoders: the form of a body. */
import type { DecoderPlan } from '../../http/records-plan.ts'
import { type Component, component, given, optionalText } from '../component.ts'
import { Unsupported } from '../problems.ts'

export function compileDecoder(decoder: Component | null): DecoderPlan {
  if (decoder === null) return { kind: 'json' }
  switch (decoder.type) {
    case 'JsonDecoder':
      return { kind: 'json' }
    case 'JsonlDecoder':
      return { kind: 'jsonl' }
    case 'IterableDecoder':
      return { kind: 'lines' }
    case 'XmlDecoder':
      return { kind: 'xml' }
    case 'JsonItemsDecoder':
      return {
        kind: 'json_items',
        path: (optionalText(decoder, 'items_path') ?? '').split('.').filter((part) => part !== ''),
      }
    case 'CsvDecoder':
      return compileCsv(decoder)
    case 'GzipDecoder':
      return { kind: 'gzip', of: compileDecoder(component(decoder, 'decoder')) }
    case 'ZipfileDecoder':
      return { kind: 'zip', of: compileDecoder(component(decoder, 'decoder')) }
    default:
      throw new Unsupported(`${decoder.type} is not supported`)
  }
}

function compileCsv(decoder: Component): DecoderPlan {
  const nulls = given(decoder, 'set_values_to_none')
  if (nulls !== undefined && !Array.isArray(nulls)) throw new Unsupported('CsvDecoder.set_values_to_none is not a list')
  return {
    kind: 'csv',
    delimiter: (optionalText(decoder, 'delimiter') ?? ',').replaceAll('\\t', '\t'),
    encoding: optionalText(decoder, 'encoding') ?? 'utf-8',
    nullValues: (nulls ?? []).map(String),
  }
}
