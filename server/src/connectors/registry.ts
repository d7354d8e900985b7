/** Every connector of the service. This is the only list of them: docs and conformance tests are derived from it. */
import { clickhouseDestination } from './clickhouse/destination/destination.ts'
import { clickhouseSource } from './clickhouse/source/source.ts'
import type { Destination, Source } from './contract.ts'
import { duckdbDestination } from './duckdb/destination/destination.ts'
import { duckdbSource } from './duckdb/source/source.ts'
import { dummySource } from './dummy/source.ts'
import { fileDestination } from './file/destination.ts'
import { fileSource } from './file/source.ts'
import { loggerDestination } from './logger/destination.ts'
import { manifestSource } from './manifest/source.ts'
import { mysqlDestination } from './mysql/destination/destination.ts'
import { mysqlSource } from './mysql/source/source.ts'
import { postgresDestination } from './postgres/destination/destination.ts'
import { postgresSource } from './postgres/source/source.ts'
import { restApiSource } from './rest-api/source.ts'
import { s3Destination } from './s3/destination/destination.ts'
import { s3Source } from './s3/source/source.ts'
import { sqliteDestination } from './sqlite/destination/destination.ts'
import { sqliteSource } from './sqlite/source/source.ts'
import { webhookDestination } from './webhook/destination.ts'

/** Manifests are also saved under names of their own, like custom sources. */
export type { Verdict } from './manifest/manifest.ts'
export { loadOperations as loadManifests, savedManifest } from './manifest/source.ts'

export const checkManifest = async (text: string) => (await import('./manifest/manifest.ts')).checkManifest(text)
export const validateManifest = async (text: string) => (await import('./manifest/validate.ts')).validateManifest(text)

export const sources: readonly Source[] = [
  clickhouseSource,
  duckdbSource,
  dummySource,
  fileSource,
  manifestSource,
  mysqlSource,
  postgresSource,
  restApiSource,
  s3Source,
  sqliteSource,
]

export const destinations: readonly Destination[] = [
  clickhouseDestination,
  duckdbDestination,
  fileDestination,
  loggerDestination,
  mysqlDestination,
  postgresDestination,
  s3Destination,
  sqliteDestination,
  webhookDestination,
]

export function findSource(name: string): Source | undefined {
  return sources.find((source) => source.name === name)
}

export function findDestination(name: string): Destination | undefined {
  return destinations.find((destination) => destination.name === name)
}
