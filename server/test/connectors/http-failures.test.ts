import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConnectorError } from '../../src/connectors/contract.ts'
import { explainRequest } from '../../src/connectors/http-failures.ts'
import { explainFailure } from '../../src/connectors/postgres/shared/errors.ts'
import { EgressFailed, type FailureReason } from '../../src/egress/refusal.ts'

const explained: [string, (error: unknown) => unknown][] = [
  ['over HTTP', (error) => explainRequest(error, 'source', 'The file cannot be fetched')],
  ['of PostgreSQL', (error) => explainFailure(error, 'source', 'PostgreSQL at db.example:5432')],
]

for (const [how, explain] of explained)
  test(`a host that does not exist is a fault of the config, an unanswered name server one that may pass, ${how}`, () => {
    const judge = (reason: FailureReason) => {
      const error = explain(new EgressFailed(reason, 'the reason'))
      assert.ok(error instanceof ConnectorError)
      assert.match(error.message, /: the reason$/)
      return [error.kind, error.transient]
    }
    assert.deepEqual(judge('unknown_host'), ['config', false])
    assert.deepEqual(judge('dns'), ['source', true])
    assert.deepEqual(judge('connection'), ['source', true])
    assert.deepEqual(judge('timeout'), ['source', true])
  })
