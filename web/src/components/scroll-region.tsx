import type { ComponentProps } from 'react'

interface Props extends ComponentProps<'section'> {
  'aria-label': string
}

/** A part of the page that scrolls by itself. It takes the focus, so that the arrow keys reach what is cut off. */
export function ScrollRegion(props: Props) {
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a keyboard could not scroll it otherwise
  return <section tabIndex={0} {...props} />
}
