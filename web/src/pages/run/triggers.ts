/** What started a run, in words. */
const TRIGGERS: Record<string, string> = {
  manual: 'started by hand',
  schedule: 'started by its schedule',
  resend: 'sends a quarantine again',
  backfill: 'fills a period again',
  replay: 'replays an output',
}

export function sayTrigger(triggeredBy: string): string {
  return TRIGGERS[triggeredBy] ?? `started by ${triggeredBy}`
}
