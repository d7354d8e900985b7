/** How a scalar without quotes is read: as PyYAML reads YAML 1.1, except that dates stay text. */
import type { ScalarTag } from 'yaml'

const TRUE = /^(?:yes|Yes|YES|true|True|TRUE|on|On|ON)$/

export const SCALARS: ScalarTag[] = [
  { tag: 'tag:yaml.org,2002:null', default: true, test: /^(?:~|null|Null|NULL|)$/, resolve: () => null },
  {
    tag: 'tag:yaml.org,2002:bool',
    default: true,
    test: /^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$/,
    resolve: (text) => TRUE.test(text),
  },
  {
    tag: 'tag:yaml.org,2002:int',
    default: true,
    test: /^[-+]?(?:0b[01_]+|0x[\da-fA-F_]+|0[0-7_]*|[1-9][\d_]*)$/,
    resolve: (text) => wholeNumber(text.replaceAll('_', '')),
  },
  {
    tag: 'tag:yaml.org,2002:float',
    default: true,
    test: /^[-+]?(?:\d[\d_]*\.[\d_]*(?:[eE][-+]\d+)?|\.\d[\d_]*(?:[eE][-+]\d+)?)$/,
    resolve: (text) => Number(text.replaceAll('_', '')),
  },
]

function wholeNumber(text: string): number | string {
  const digits = text.replace(/^[-+]/, '')
  const octal = /^0[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : Number(digits)
  const value = text.startsWith('-') ? -octal : octal
  return Number.isSafeInteger(value) ? value : text
}

const LONGEST_WORD = 5

/** The value of a scalar without quotes. */
export function plainValue(text: string): string | number | boolean | null {
  const first = text.charCodeAt(0)
  const numeric = first <= 0x39 && first >= 0x2b
  if (!numeric && text.length > LONGEST_WORD) return text
  for (const { test, resolve } of SCALARS) {
    if (test!.test(text)) return resolve(text, () => undefined, {}) as string | number | boolean | null
  }
  return text
}
