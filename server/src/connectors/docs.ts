/** The page of a system in docs/connectors/, made from the declarations of its source and destination alone. */
import type { Connector, Destination, Source } from './contract.ts'
import { findDestination, findSource } from './registry.ts'
import type { Node } from './settings/settings.ts'

/** The page of everything that is registered under a name: a source, a destination or both. */
export function connectorPage({ name }: { name: string }): string {
  const found = [findSource(name), findDestination(name)].filter((connector) => connector !== undefined)
  if (found.length === 0) throw new Error(`There is no connector '${name}'.`)
  const parts = [`# ${found[0]!.display_name}`, ...found.flatMap(describeConnector)]
  return `<!-- Made by scripts/generate-docs.ts from the connector itself. -->\n\n${parts.join('\n\n')}\n`
}

function describeConnector(connector: Connector): string[] {
  const example = JSON.stringify({ [connector.kind]: connector.example_config }, null, 2)
  return [
    connector.kind === 'source' ? '## Source' : '## Destination',
    connector.description,
    `\`\`\`json\n${example}\n\`\`\``,
    connector.kind === 'source' ? describeSource(connector) : describeDestination(connector),
    describeSettings(connector.settings as unknown as Node),
    ...(connector.notes ? [connector.notes.trim()] : []),
  ]
}

function describeSource({ streams, auth_types, capabilities }: Source): string {
  const { incremental, resumable, columns, encodings } = capabilities
  return table([
    [
      'Streams',
      streams === 'dynamic'
        ? 'found in the system itself; list them with `POST /api/connectors/streams`'
        : code(streams),
    ],
    ['Authentication', code(auth_types.includes('none') ? auth_types : [...auth_types, 'none'])],
    ['Incremental', yesNo(incremental, 'reads what is new since the last run', 'reads everything each time')],
    [
      'After a lost worker',
      yesNo(resumable, 'goes on from the last checkpoint', 'begins again; nothing is seen twice'),
    ],
    ['Columns', yesNo(columns, 'chosen where the data lies', 'chosen by the engine')],
    ['Encodings', code(encodings)],
  ])
}

function describeDestination({ capabilities }: Destination): string {
  const { write, encodings, commits } = capabilities
  return table([
    ['Write modes', code(write)],
    [
      'Exactly once by',
      commits === 'mark'
        ? 'a mark kept in the system itself, committed with the data'
        : "the run's output file, which counts only once the run has succeeded",
    ],
    ['Encodings', code(encodings)],
  ])
}

function describeSettings(schema: Node): string {
  const rows = settingRows(schema, '')
  if (rows.length === 0) return 'It has no settings.'
  return ['| Setting | Type | Default | |', '|---|---|---|---|', ...rows].join('\n')
}

function settingRows(schema: Node, path: string): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, node]) => {
    const required = schema.required?.includes(name) && node.default === undefined
    const given = required ? 'required' : node.default === undefined ? '' : `\`${JSON.stringify(node.default)}\``
    const marks = [node.secret ? 'Secret.' : '', node.override ? 'May be given beside a saved connector.' : '']
    const about = [node.description ?? '', ...marks].filter((text) => text !== '').join(' ')
    const row = `| \`${path}${name}\` | ${describeType(node)} | ${given} | ${about.replaceAll('|', '\\|')} |`
    return [row, ...settingRows(node, `${path}${name}.`)]
  })
}

function describeType(node: Node): string {
  if (node.const !== undefined) return `\`${String(node.const)}\``
  if (node.enum) return code(node.enum.map(String))
  if (node.anyOf) return node.anyOf.map(describeType).join(', ')
  if (node.type === 'array') return `array of ${describeType(node.items ?? {})}`
  return node.type ?? 'any'
}

function table(rows: [string, string][]): string {
  return ['| | |', '|---|---|', ...rows.map(([name, text]) => `| ${name} | ${text} |`)].join('\n')
}

function code(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ')
}

function yesNo(value: boolean, yes: string, no: string): string {
  return value ? yes : no
}
