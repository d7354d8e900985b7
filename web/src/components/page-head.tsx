import { Link, type LinkProps } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import { createPortal } from 'react-dom'
import styles from './page-head.module.css'

/** A page above this one: its name and its address. */
export type Above = [words: string, link: LinkProps]

interface Props {
  title: string
  /** The pages above this one, outermost first. */
  trail?: Above[]
  /** What this page is called in the trail; the title by default. */
  here?: string
  lead?: ReactNode
  children?: ReactNode
}

/** The one heading of a page, with its actions. It also names the tab of the browser. */
export function PageHead({ title, trail = [], here = title, lead, children }: Props) {
  const [bar, setBar] = useState<HTMLElement | null>(null)
  // The bar is drawn together with the first page, so it can be found only afterwards.
  useEffect(() => setBar(document.getElementById('crumbs')), [])
  useEffect(() => {
    document.title = `${title} · Sluice`
  }, [title])
  return (
    <div className={styles.head}>
      {bar && createPortal(<Trail trail={trail} here={here} />, bar)}
      <div className={styles.words}>
        <h1>{title}</h1>
        {lead && <div className={styles.lead}>{lead}</div>}
      </div>
      {children && <div className={styles.actions}>{children}</div>}
    </div>
  )
}

/** Where a page is. On a narrow screen only the way back: the heading below says the rest. */
function Trail({ trail, here }: { trail: Above[]; here: string }) {
  return (
    <div className={styles.trail}>
      {trail.map(([words, link]) => (
        <span key={words} className={styles.above}>
          <Link {...link} title={words}>
            {words}
          </Link>
          <span aria-hidden="true">/</span>
        </span>
      ))}
      <span className={styles.here} title={here}>
        {here}
      </span>
    </div>
  )
}
