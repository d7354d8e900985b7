/** docs/agents.md. The tools in it come from the program. */
import { MOST_CHARACTERS, NOTICE } from '../server/src/mcp/data.ts'
import { tools } from '../server/src/mcp/tools.ts'

const rows = tools.map(
  ({ name, kind, description }) => `| \`${name}\` | ${kind === 'reads' ? 'yes' : 'no'} | ${description} |`,
)

export const agentsPage = () => `# Agents

An agent uses Sluice by the [Model Context Protocol](https://modelcontextprotocol.io): it lists and describes, previews, runs, reads logs and
outputs, checks the code of sources and plans changes. Nothing can be deleted, and nothing but runs changed.

## On a machine with \`sluice\`

\`sluice mcp\` speaks the protocol on standard input and output, with the profile of \`sluice login\` ([the command line](cli.md#sign-in)), or
with \`SLUICE_URL\` and \`SLUICE_API_KEY\`. Most clients have a file of servers:

\`\`\`json
{
  "mcpServers": {
    "sluice": { "command": "sluice", "args": ["mcp", "--read-only", "--profile", "default"] }
  }
}
\`\`\`

## Over HTTP

\`POST /mcp\` of the service takes the same, with an [API key](api-keys.md) as \`X-API-Key\`, or an access token as \`Authorization: Bearer\`:

\`\`\`json
{
  "mcpServers": {
    "sluice": {
      "type": "http",
      "url": "https://sluice.example.com/mcp?read_only=true",
      "headers": { "X-API-Key": "svc_live_…" }
    }
  }
}
\`\`\`

Each message is a request by itself, without a session, answered with JSON. A request with an \`Origin\` other than that of \`PUBLIC_URL\`
or \`FRONTEND_URL\` is refused with 403. The examples use \`API\`, \`call\` and \`field\` of the [quick start](../README.md#a-first-pipeline):

\`\`\`sh
KEY=$(call /api-keys -d '{ "name": "agent", "scopes": { "permissions": ["pipelines:read"] } }' | field key)
curl -fsS \${API%/api}/mcp?read_only=true -H "X-API-Key: $KEY" -H 'Content-Type: application/json' \\
  -d '{ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "list_pipelines", "arguments": {} } }'
\`\`\`

## Tools

| Tool | Read-only | |
|---|---|---|
${rows.join('\n')}

With \`--read-only\`, or \`read_only=true\` in the address, only those marked in the second column are there: they start nothing and ask
no other system. Checking code loads it in the sandbox, where it has no network.

## What an agent may do

What its key may do: each call of a tool is a request to the [API](openapi.json) with that key, and is checked, limited and logged like any
other. So give an agent a key of its own, with the permissions and the domain that it needs ([limits](api-keys.md#limits)): to read,
\`pipelines:read\` is enough. Secrets in the config of a pipeline are masked, also for a key that may read them. A run may replace rows in
the target, if the pipeline does; clients are told, and ask a person.

## What is data

Names, rows, log lines and error messages may have been written by anybody, and an agent must not take them for instructions. So a
text answer begins with the sentence “${NOTICE}”, and the data is JSON between two marks with a random number, in which \`<\` is
written as \`\\u003c\`. \`structuredContent\` has the same in \`data\`, with the sentence in \`notice\`. An error is one sentence with the reason as a quoted
text, and the id of the request.

An answer has at most ${MOST_CHARACTERS.toLocaleString('en')} characters, and texts in it 2,000 (code 50,000); \`truncated\` says that something was left out. \`read_output\`
returns up to 200 rows and \`read_logs\` 500 lines; \`run_pipeline\` and \`describe_run\` wait up to 50 seconds for the end of a run.
`
