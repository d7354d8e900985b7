/** Lays out a table: columns as wide as their longest cell, made narrower where the terminal is. */
import { cutTo, widthOf } from './text-width.ts'

export interface Column {
  title: string
  /** Never cut: an id that is cut is useless. */
  whole?: boolean
  /** Aligned to the right: numbers. */
  right?: boolean
  /** Left out, the last first, where cutting is not enough. */
  extra?: boolean
}

interface Cell {
  /** The index of its column. */
  column: number
  text: string
}

const GAP = 2
const NARROWEST = 8

/** The titles, then the rows; cells are padded. `width` null: as wide as it gets. */
export function layOut(columns: Column[], rows: string[][], width: number | null): Cell[][] {
  const natural = columns.map(({ title }, index) => {
    const longest = rows.reduce((most, row) => Math.max(most, widthOf(row[index] ?? '')), widthOf(title))
    return Math.min(longest, columns[index]!.whole ? longest : (width ?? longest))
  })
  const shown = width === null ? columns.map((_, index) => index) : choose(columns, natural, width)
  const widths = width === null ? natural : narrow(columns, natural, shown, width)
  const put = (cells: string[]): Cell[] =>
    shown.map((column, position) => {
      const text = cutTo(cells[column] ?? '', widths[column]!)
      const padding = ' '.repeat(widths[column]! - widthOf(text))
      const gap = position === shown.length - 1 ? '' : ' '.repeat(GAP)
      return { column, text: columns[column]!.right ? `${padding}${text}${gap}` : `${text}${padding}${gap}` }
    })
  return [columns.map(({ title }) => title), ...rows].map(put)
}

const total = (widths: number[]): number => widths.reduce((sum, each) => sum + each, GAP * (widths.length - 1))

/** Without the last extra columns, until the rest fits when it is as narrow as it may be. */
function choose(columns: Column[], natural: number[], width: number): number[] {
  const shown = columns.map((_, index) => index)
  const least = (index: number) => (columns[index]!.whole ? natural[index]! : Math.min(natural[index]!, NARROWEST))
  while (total(shown.map(least)) > width) {
    const last = shown.findLast((index) => columns[index]!.extra)
    if (last === undefined) break
    shown.splice(shown.indexOf(last), 1)
  }
  return shown
}

/** The widest column gives first. */
function narrow(columns: Column[], natural: number[], shown: number[], width: number): number[] {
  const widths = [...natural]
  let over = total(shown.map((index) => widths[index]!)) - width
  while (over > 0) {
    const cuttable = shown.filter((index) => !columns[index]!.whole && widths[index]! > NARROWEST)
    if (cuttable.length === 0) break
    const widest = cuttable.reduce((best, index) => (widths[index]! > widths[best]! ? index : best))
    widths[widest]!--
    over--
  }
  return widths
}
