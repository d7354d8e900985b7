/** Every connector of the registry against the suites in test/harness. Nothing to add here for a new one but its fixture. */
import { destinations, sources } from '../../src/connectors/registry.ts'
import type { OpenDestinationFixture, OpenSourceFixture } from '../harness/conformance.ts'
import { testDestination } from '../harness/destination-suite.ts'
import { testSource } from '../harness/source-suite.ts'

interface Fixtures {
  source?: OpenSourceFixture
  destination?: OpenDestinationFixture
}

async function loadFixtures(name: string): Promise<Fixtures> {
  return import(`./fixtures/${name}.ts`)
}

for (const source of sources) {
  const fixture = (await loadFixtures(source.name)).source
  if (!fixture) throw new Error(`fixtures/${source.name}.ts exports no source fixture`)
  testSource(source, fixture)
}

for (const destination of destinations) {
  const fixture = (await loadFixtures(destination.name)).destination
  if (!fixture) throw new Error(`fixtures/${destination.name}.ts exports no destination fixture`)
  testDestination(destination, fixture)
}
