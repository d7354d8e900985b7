/** All tools. None of them deletes anything. */
import type { Tool } from './tool.ts'
import { listTools } from './tools/lists.ts'
import { pipelineTools } from './tools/pipelines.ts'
import { planTools } from './tools/plan.ts'
import { runTools } from './tools/runs.ts'
import { sourceTools } from './tools/sources.ts'

export const tools: readonly Tool[] = [...listTools, ...pipelineTools, ...runTools, ...sourceTools, ...planTools]

export const toolsFor = (readOnly: boolean): readonly Tool[] =>
  readOnly ? tools.filter(({ kind }) => kind === 'reads') : tools
