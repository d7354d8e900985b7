/** Connection checks that source and destination share: good settings pass, everything else fails fast with a reason. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { NO_AUTHENTICATION } from '../../src/connectors/authentication/authentication.ts'
import { createFetch } from '../../src/connectors/authentication/fetch.ts'
import { type Connector, ConnectorError } from '../../src/connectors/contract.ts'
import { applyDefaults, findSettingsFaults } from '../../src/connectors/settings/settings.ts'
import type { Peers, Settings } from './conformance.ts'
import { type PeerKind, startPeer } from './peers.ts'
import type { RunBench } from './run-bench.ts'
import type { Said } from './said.ts'

interface CheckSuite {
  connector: Connector
  fixture(): Peers
  /** A stream that can be read, or that can be written with these settings. */
  usable(): Promise<Settings & { stream: string }>
  bench(): RunBench
  said: Said
}

type Checked = Settings & { stream?: string | null }

export function testChecks({ connector, fixture, usable, bench, said }: CheckSuite): void {
  async function check({ stream = null, ...settings }: Checked, signal = AbortSignal.timeout(20_000)): Promise<void> {
    const log = { debug: said.add, info: said.add, warn: said.add, error: said.add }
    try {
      const { egress } = bench()
      const authentication = settings.authentication ?? NO_AUTHENTICATION
      await connector.check({
        config: applyDefaults(connector.settings, settings.config),
        authentication,
        fetch: createFetch({ egress, authentication, signal }),
        signal,
        egress,
        log,
        outputs: { parts: () => null, blobs: bench().blobs },
        fault: () => undefined,
        stream,
      })
    } catch (error) {
      said.addError(error)
      throw error
    }
  }
  const refuses = (settings: Checked, kinds: string[], signal?: AbortSignal): Promise<void> =>
    assert.rejects(check(settings, signal), (error: unknown) => {
      assert.ok(error instanceof ConnectorError, `a ConnectorError, not ${String(error)}`)
      assert.ok(kinds.includes(error.kind), `kind ${error.kind} of: ${error.message}`)
      assert.ok(error.message.length > 20, `the message says what to do: ${error.message}`)
      return true
    })

  it('has an example that fits its own settings', () => {
    const faults = findSettingsFaults(connector.settings, connector.example_config.config ?? {}, 'config')
    assert.deepEqual(faults, [])
    assert.equal(connector.example_config.name, connector.name)
  })

  it('passes the check with good settings', async () => {
    await check(await fixture().good())
  })

  it('passes the check of a stream that it can use', async () => {
    await check(await usable())
  })

  it('refuses the check of a stream that is not there', async (test) => {
    if (connector.kind === 'destination') return test.skip('a destination makes what is not there')
    await refuses({ ...(await usable()), stream: 'no such stream' }, ['config', 'source'])
  })

  it('refuses the check of a stream that its credentials may not use', async (test) => {
    const forbidden = await fixture().forbidden?.()
    if (!forbidden) return test.skip('its credentials are for all of it')
    await refuses(forbidden, ['auth'])
    await check({ ...forbidden, stream: null, config: { ...forbidden.config, ...forbidden.elsewhere } })
  })

  it('refuses bad credentials', async (test) => {
    const bad = await fixture().badCredentials?.()
    if (!bad) return test.skip('it has no credentials')
    await refuses(bad, [bad.kind])
  })

  it('refuses a server without TLS if TLS is required', async (test) => {
    const plain = await fixture().tlsRefused?.()
    if (!plain) return test.skip('it does not speak TLS by itself')
    await refuses(plain, ['source', 'destination', 'config'])
  })

  for (const kind of ['closed', 'hangs up', 'nonsense'] as const satisfies PeerKind[]) {
    it(`fails the check where the other side is ${kind === 'closed' ? 'not there' : `one that ${kind}`}`, async (test) => {
      if (!fixture().at) return test.skip('it has no address')
      const peer = await startPeer(kind)
      try {
        await refuses(await fixture().at!('127.0.0.1', peer.port), ['source', 'destination', 'config', 'timeout'])
      } finally {
        await peer.close()
      }
    })
  }

  it('gives up on a silent peer as soon as it is aborted', async (test) => {
    if (!fixture().at) return test.skip('it has no address')
    const peer = await startPeer('silent')
    try {
      const started = performance.now()
      await assert.rejects(check(await fixture().at!('127.0.0.1', peer.port), AbortSignal.timeout(300)))
      assert.ok(performance.now() - started < 3000, 'within three seconds')
    } finally {
      await peer.close()
    }
  })
}
