/** Runs the suites over connectors and their fixtures; those of an unavailable system are skipped, with a reason. */
import { describe } from 'node:test'
import type { Destination, Source } from '../../src/connectors/contract.ts'
import { destinations, sources } from '../../src/connectors/registry.ts'
import type { OpenDestinationFixture, OpenSourceFixture } from './conformance.ts'
import { testDestination } from './destination-suite.ts'
import { testSource } from './source-suite.ts'

/** The exports of a fixture file. */
export interface Fixtures {
  source?: OpenSourceFixture
  destination?: OpenDestinationFixture
  /** Why the system is unavailable, in one sentence, or a function that returns it, or null if it is available. */
  unavailable?: string | (() => Promise<string | null>)
}

export interface ConformanceOptions {
  sources: readonly Source[]
  destinations: readonly Destination[]
  load(name: string): Promise<Fixtures>
  /** Receives the line about an unavailable system. */
  print?(line: string): void
}

export async function testConnectors(options: ConformanceOptions): Promise<void> {
  const { load, print = console.log } = options
  const names = new Set([...options.sources, ...options.destinations].map(({ name }) => name))
  for (const name of names) {
    const fixtures = await load(name)
    const reason = await findAbsence(fixtures)
    if (reason !== null) {
      print(`${name} is not tested: ${reason}`)
      continue
    }
    describe(name, () => {
      for (const source of options.sources.filter((each) => each.name === name))
        testSource(source, requireFixture(fixtures.source, name, 'source'))
      for (const destination of options.destinations.filter((each) => each.name === name))
        testDestination(destination, requireFixture(fixtures.destination, name, 'destination'))
    })
  }
}

/** Connectors of the registry by name, with the fixtures in test/connectors/fixtures. */
export function testRegistered(has: (name: string) => boolean): Promise<void> {
  return testConnectors({
    sources: sources.filter(({ name }) => has(name)),
    destinations: destinations.filter(({ name }) => has(name)),
    load: (name) => import(`../connectors/fixtures/${name}.ts`),
  })
}

export async function findAbsence({ unavailable }: Fixtures): Promise<string | null> {
  return typeof unavailable === 'function' ? unavailable() : (unavailable ?? null)
}

function requireFixture<T>(fixture: T | undefined, name: string, kind: string): T {
  if (fixture === undefined) throw new Error(`fixtures/${name}.ts exports no ${kind} fixture`)
  return fixture
}
