/** What the palette offers: pages, actions, and the pipelines and runs that match. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type LinkProps, useNavigate } from '@tanstack/react-router'
import { useDeferredValue } from 'react'
import { answer, api } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { pipelinesQuery, runsQuery } from '../../api/queries.ts'
import type { IconName } from '../icon.tsx'
import type { Place } from '../places.ts'
import { statusWord } from '../status.tsx'
import { setTheme, useShade } from '../theme.ts'
import { useSignOut } from '../use-sign-out.ts'
import { keysOf } from './shortcuts.ts'

export interface Command {
  id: string
  group: 'Pages' | 'Actions' | 'Pipelines' | 'Run now' | 'Runs'
  label: string
  icon: IconName
  /** Beside the label: a shortcut or a state. */
  hint?: string
  /** A thrown error is shown, and the palette stays. */
  run(): unknown
}

const FOUND = 6
const RECENT_RUNS = 50
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i

export function useCommands(typed: string, places: readonly Place[], showShortcuts: () => void): Command[] {
  const q = useDeferredValue(typed.trim())
  const pages = usePageCommands(places)
  const actions = useActionCommands(showShortcuts)
  const pipelines = usePipelineCommands(q)
  const runs = useRunCommands(q)
  return [...[...pages, ...actions].filter(({ label }) => matches(label, q)), ...pipelines, ...runs]
}

function matches(label: string, q: string): boolean {
  const lower = label.toLowerCase()
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word))
}

function usePageCommands(places: readonly Place[]): Command[] {
  const navigate = useNavigate()
  const keys = new Map([...keysOf(places)].map(([key, { to }]) => [to, key]))
  return places.map(({ to, label, icon }) => ({
    id: `page ${to}`,
    group: 'Pages',
    label,
    icon,
    hint: `g ${keys.get(to) ?? ''}`,
    run: () => navigate({ to }),
  }))
}

function useActionCommands(showShortcuts: () => void): Command[] {
  const navigate = useNavigate()
  const signOut = useSignOut()
  const other = useShade() === 'dark' ? 'light' : 'dark'
  const go = (link: LinkProps) => () => navigate(link)
  const offered: [boolean, string, IconName, Command['run']][] = [
    [useMay('pipelines:write'), 'New pipeline', 'pipelines', go({ to: '/pipelines/new' })],
    [useMay('connectors:write'), 'New connection', 'connections', go({ to: '/connections/new' })],
    [useMay('custom_sources:write'), 'New source', 'sources', go({ to: '/sources/new' })],
    [true, 'Show failed runs', 'runs', go({ to: '/runs', search: { status: 'failed' } })],
    [true, `Use the ${other} theme`, other === 'dark' ? 'moon' : 'sun', () => setTheme(other)],
    [true, 'Show keyboard shortcuts', 'search', showShortcuts],
    [true, 'Sign out', 'close', signOut],
  ]
  return offered
    .filter(([may]) => may)
    .map(([, label, icon, run]) => ({ id: `action ${label}`, group: 'Actions', label, icon, run }))
}

/** “run orders” finds orders, to run it. */
function usePipelineCommands(q: string): Command[] {
  const navigate = useNavigate()
  const queries = useQueryClient()
  const mayRun = useMay('pipelines:run')
  const [, wanted] = /^run\s+(.*)$/i.exec(q) ?? []
  const name = wanted ?? q
  const found = useQuery({ ...pipelinesQuery({ q: name, limit: FOUND, sort: 'name' }), enabled: name !== '' })
  if (name === '' || found.data === undefined) return []
  const open = found.data.items.map((pipeline): Command => {
    const { id, name, source_name, destination_name } = pipeline
    return {
      id: `pipeline ${id}`,
      group: 'Pipelines',
      label: name,
      icon: 'pipelines',
      hint: `${source_name ?? '?'} → ${destination_name ?? '?'}`,
      run: () => navigate({ to: '/pipelines/$id', params: { id } }),
    }
  })
  const start = found.data.items.slice(0, wanted === undefined ? 3 : FOUND).map(
    ({ id, name }): Command => ({
      id: `run ${id}`,
      group: 'Run now',
      label: `Run ${name}`,
      icon: 'runs',
      run: async () => {
        const run = await answer(api.POST('/api/pipelines/{id}/run', { params: { path: { id } } }))
        void queries.invalidateQueries({ queryKey: ['runs'] })
        await navigate({ to: '/runs/$id', params: { id: run.id } })
      },
    }),
  )
  if (!mayRun) return open
  return wanted === undefined ? [...open, ...start] : [...start, ...open]
}

function useRunCommands(q: string): Command[] {
  const navigate = useNavigate()
  const recent = useQuery(runsQuery({ limit: RECENT_RUNS }))
  const open = (id: string) => () => navigate({ to: '/runs/$id', params: { id } })
  if (UUID.test(q)) return [{ id: `run ${q}`, group: 'Runs', label: `Open run ${q}`, icon: 'runs', run: open(q) }]
  return (recent.data?.items ?? [])
    .filter(({ pipeline_name, status }) => q !== '' && matches(`${pipeline_name} ${statusWord(status)} run`, q))
    .slice(0, FOUND)
    .map(({ id, pipeline_name, status, created_at }) => ({
      id: `run ${id}`,
      group: 'Runs',
      label: pipeline_name,
      icon: 'runs',
      hint: `${statusWord(status).toLowerCase()}, ${time.format(new Date(created_at))}`,
      run: open(id),
    }))
}

const time = new Intl.DateTimeFormat(undefined, { dateStyle: 'short', timeStyle: 'short' })
