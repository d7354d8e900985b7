export const notes = `
Every request has up to \`batch_records\` records and \`batch_bytes\` bytes. With \`format\` json the body is

\`\`\`json
{ "batch": "<key>", "run_id": "<run>", "stream": "orders", "records": [{ "id": 1 }, { "id": 2 }] }
\`\`\`

with ndjson one record per line. Numbers have all of their digits. Only **append**: a receiver gets what a run read, and decides what to do
with it.

**Nothing can be hidden**: records have arrived when their request is answered, also if the run fails later. Within a run each record comes
exactly once, to a receiver that takes a key once, also if workers crash. But a run that failed or was cancelled has sent what it
has sent, and the next run sends it again under other keys; and so does a run whose source cannot resume, if its worker is lost. Give
records an id if that matters, and let the receiver overwrite by it.

| Header | |
|---|---|
| \`Idempotency-Key\` | identifies the batch: the same bytes always come under the same key, and no others |
| \`X-Sluice-Timestamp\`, \`X-Sluice-Signature\` | with \`secret\`: \`sha256=\` and the hex HMAC-SHA256 of the timestamp, a dot, and the body |
| \`X-Sluice-Attempt\` | 1 for the first try |

**What a receiver must do**: verify the signature over the bytes as they came, refuse timestamps older than some minutes, and take a
key only once. After a crash of a worker, or when an answer was lost, a batch comes again under its key; a receiver that stores keys
together with the records has each record exactly once.

\`\`\`js
import { createHmac, timingSafeEqual } from 'node:crypto'

export function isGenuine(secret, headers, body) {
  const timestamp = headers['x-sluice-timestamp']
  const expected = Buffer.from(\`sha256=\${createHmac('sha256', secret).update(\`\${timestamp}.\`).update(body).digest('hex')}\`)
  const given = Buffer.from(headers['x-sluice-signature'] ?? '')
  const fresh = Math.abs(Date.now() / 1000 - Number(timestamp)) < 300
  return fresh && given.length === expected.length && timingSafeEqual(given, expected)
}
\`\`\`

**Answers**: 2xx takes the batch. 408, 425, 429, 5xx and no answer within \`timeout_seconds\` are tried again, up to \`max_attempts\` times,
after \`Retry-After\` (at most five minutes) or after 1, 2, 4, … up to 60 seconds; then the run fails, and \`run.max_attempts\` decides whether another
attempt goes on from there. 401, 403, 404, 405, 410 and redirects fail the run at once: redirects are not followed, so headers never
reach another address. Every other 4xx refuses the batch: it fails the run, or with \`on_error\` quarantine each of its records goes into the
quarantine of the run with the status and the beginning of the answer. \`POST /api/pipelines/runs/{run_id}/quarantine/resend\`
sends them again, under new keys. Use batch_records 1 if single records are refused. At most 16 KB of an answer are read.

**Private addresses**: a receiver in a private network must be allowed by the operator, with its port: \`EGRESS_ALLOW=10.0.0.5:8080\`.

### Example

The body of \`POST /api/pipelines\`:

\`\`\`json
{
  "name": "creatures to our API",
  "config": {
    "source": { "name": "dummy", "stream": "creatures", "config": { "records": 25 } },
    "destination": {
      "name": "webhook",
      "config": {
        "url": "https://api.example.com/records",
        "headers": { "authorization": "Bearer choose-one-Token1" },
        "secret": "choose-one-Secret1",
        "batch_records": 10
      }
    },
    "sync": { "write": "append", "on_error": "quarantine" }
  }
}
\`\`\`

After \`POST /api/pipelines/{id}/run\` the receiver has three requests, with 10, 10 and 5 records.
`.trim()
