import { useState } from 'react'
import type { Editor } from './editor.ts'
import { EndpointSection } from './endpoint-section.tsx'
import { ScheduleSection } from './schedule-section.tsx'
import { Section } from './section.tsx'
import { briefOf, STEPS, type Step, TITLES } from './steps.ts'
import { StreamsSection } from './streams-section.tsx'
import { SyncSection } from './sync-section.tsx'

/** Where the problems of a step are in what is sent. */
const PATHS: Record<Step, readonly string[]> = {
  source: ['config.source.name', 'config.source.config', 'config.source.authentication', 'config.source.saved'],
  streams: ['config.source.stream', 'config.columns', 'streams'],
  destination: ['config.destination', 'table_pattern'],
  sync: ['config.sync', 'config.run'],
  schedule: ['name', 'schedule', 'timezone', 'domain_id', 'enabled'],
  review: [],
}

/** Each step opens when the one before it is complete. Those of a pipeline that exists are closed until they are changed. */
export function StepSections({ editor, gaps }: { editor: Editor; gaps: Record<Step, string | null> }) {
  const [toggled, setToggled] = useState<Partial<Record<Step, boolean>>>({})
  const isNew = editor.pipelineId === null
  const steps = STEPS.filter((step) => step !== 'review')
  const firstGap = steps.findIndex((step) => gaps[step] !== null)
  return steps.map((step, index) => {
    const wrong = Object.keys(editor.problems).some((path) => PATHS[step].some((prefix) => path.startsWith(prefix)))
    const open = toggled[step] ?? (isNew || wrong || gaps[step] !== null)
    return (
      <Section
        key={step}
        id={step}
        number={index + 1}
        title={TITLES[step]}
        brief={briefOf(step, editor)}
        state={firstGap !== -1 && index > firstGap ? 'waiting' : gaps[step] === null && !wrong ? 'done' : 'unfinished'}
        open={open || (wrong && toggled[step] !== false)}
        onToggle={() => setToggled({ ...toggled, [step]: !open })}
      >
        {step === 'source' || step === 'destination' ? <EndpointSection side={step} editor={editor} /> : null}
        {step === 'streams' && <StreamsSection editor={editor} />}
        {step === 'sync' && <SyncSection editor={editor} />}
        {step === 'schedule' && <ScheduleSection editor={editor} />}
      </Section>
    )
  })
}
