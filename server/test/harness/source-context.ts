/** The context of a source outside a run. */

import { NO_AUTHENTICATION } from '../../src/connectors/authentication/authentication.ts'
import { createFetch } from '../../src/connectors/authentication/fetch.ts'
import type { Source, SourceContext } from '../../src/connectors/contract.ts'
import { applyDefaults } from '../../src/connectors/settings/settings.ts'
import type { TObject } from '../../src/schema.ts'
import type { Settings } from './conformance.ts'
import type { RunBench } from './run-bench.ts'

export function sourceContext<S extends TObject>(
  bench: RunBench,
  source: Source<S>,
  settings: Settings,
): Parameters<Source<S>['check']>[0] {
  const { egress } = bench
  const authentication = settings.authentication ?? NO_AUTHENTICATION
  const signal = AbortSignal.timeout(20_000)
  const context: SourceContext = {
    config: applyDefaults(source.settings, settings.config),
    authentication,
    fetch: createFetch({ egress, authentication, signal }),
    signal,
    egress,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    outputs: { parts: () => null, blobs: bench.blobs },
    fault: () => undefined,
  }
  return context as Parameters<Source<S>['check']>[0]
}
