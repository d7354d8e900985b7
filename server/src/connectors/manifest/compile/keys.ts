import { createHash } from 'node:crypto'
import type { Component } from '../component.ts'

/** The same component is the same token for all requests of a plan. */
export function keyOf(component: Component): string {
  return createHash('sha256').update(JSON.stringify(component)).digest('hex')
}
