/** What the compilation of one manifest shares. */
import type { StreamPlan } from '../../http/plan.ts'
import type { RequestPlan } from '../../http/request-plan.ts'
import type { Fields } from '../../http/scope.ts'
import type { Component, Dict } from '../component.ts'

export interface Environment {
  /** The settings of the source. Empty while a manifest is only checked. */
  config: Fields
  /**
   * No settings are known: whatever depends on them is compiled in all of its forms, so that a manifest which checks as
   * whole compiles with any settings.
   */
  checking: boolean
  /** The settings as they are stored, where a token that was replaced is written to. Null: they are not known. */
  stored: StoredSettings | null
  /** A stream that another one needs as its parent. */
  stream(stream: Component): StreamPlan
  /** A request that belongs to no stream, such as a login. */
  request(requester: Component): RequestPlan
}

export interface StoredSettings {
  /** Before defaults and migrations. */
  settings: Fields
  /** Where they are in the source's `config`. */
  root: readonly string[]
  /** Their JSON schema. */
  schema: Dict
}

/** What components of a stream may depend on. */
export interface Place {
  /** Extra fields of the partition, which templates may use as variables. */
  extra: ReadonlySet<string>
}
