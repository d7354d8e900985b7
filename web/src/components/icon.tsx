/** The few icons of the console, drawn on a grid of 16. An icon always stands beside or instead of a word that is there. */
const PATHS = {
  home: 'M2.500 7 8 2.500 13.500 7v6a.5.5 0 0 1-.5.5H9.500V10h-3v3.500H3a.5.5 0 0 1-.5-.5z',
  pipelines:
    'M2 4.500h4.500a1.500 1.500 0 0 1 1.500 1.500v4a1.500 1.500 0 0 0 1.500 1.500H14M11.500 9l2.500 2.500-2.500 2.500',
  connections: 'M6 2.5v3M10 2.5v3M4 5.5h8v2.500a4 4 0 0 1-8 0zM8 12v2',
  sources: 'M5.500 4.500 2 8l3.500 3.500M10.500 4.500 14 8l-3.500 3.500',
  runs: 'M5 3.500 12.500 8 5 12.500z',
  sun: 'M8 5.200a2.800 2.800 0 1 0 0 5.600 2.800 2.800 0 0 0 0-5.600M8 1.500v1.200M8 13.300v1.200M1.500 8h1.200M13.300 8h1.200M3.400 3.400l.9.9M11.700 11.700l.9.9M12.600 3.400l-.9.9M4.300 11.700l-.9.9',
  moon: 'M13 9.800A5.500 5.500 0 0 1 6.200 3a5.500 5.500 0 1 0 6.800 6.800',
  down: 'M4.500 6.500 8 10l3.500-3.500',
  up: 'M4.500 9.500 8 6l3.500 3.500',
  close: 'M4 4l8 8M12 4l-8 8',
  more: 'M3 8a.5.5 0 1 0 1 0 .5.5 0 1 0-1 0M7.500 8a.5.5 0 1 0 1 0 .5.5 0 1 0-1 0M12 8a.5.5 0 1 0 1 0 .5.5 0 1 0-1 0',
  people:
    'M6 7.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5M1.500 13.500c0-2.500 2-4 4.500-4s4.500 1.500 4.500 4M10.500 2.800a2.500 2.500 0 0 1 0 4.400M12 9.800c1.500.6 2.500 1.900 2.500 3.700',
  settings: 'M2 4.500h7M12 4.500h2M2 11.500h2M7 11.500h7M10.500 3v3M5.500 10v3',
  search: 'M7 2.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 0 0 0-9M10.300 10.300l3.200 3.200',
} as const

export type IconName = keyof typeof PATHS

export function Icon({ name }: { name: IconName }) {
  return (
    <svg
      width="16"
      height="16"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      aria-hidden="true"
    >
      <path d={PATHS[name]} strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  )
}
