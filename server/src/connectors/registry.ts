/** Every connector of the service. This is the only list of them: docs and conformance tests are derived from it. */
import type { Destination, Source } from './contract.ts'
import { dummySource } from './dummy/source.ts'
import { fileDestination } from './file/destination.ts'
import { fileSource } from './file/source.ts'
import { loggerDestination } from './logger/destination.ts'
import { mysqlDestination } from './mysql/destination/destination.ts'
import { mysqlSource } from './mysql/source/source.ts'
import { postgresDestination } from './postgres/destination/destination.ts'
import { postgresSource } from './postgres/source/source.ts'
import { s3Destination } from './s3/destination/destination.ts'
import { s3Source } from './s3/source/source.ts'

export const sources: readonly Source[] = [dummySource, fileSource, mysqlSource, postgresSource, s3Source]

export const destinations: readonly Destination[] = [
  fileDestination,
  loggerDestination,
  mysqlDestination,
  postgresDestination,
  s3Destination,
]

export function findSource(name: string): Source | undefined {
  return sources.find((source) => source.name === name)
}

export function findDestination(name: string): Destination | undefined {
  return destinations.find((destination) => destination.name === name)
}
