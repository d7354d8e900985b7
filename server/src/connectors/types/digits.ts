/** The digits of a decimal number in JSON notation. Nothing here passes through a float unless it has to. */

const FORM = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/** The number is 0.`significant` × 10^`point`. */
interface Significant {
  significant: string
  point: number
}

function readSignificant(text: string): Significant | null {
  const match = FORM.exec(text)
  if (match === null) return null
  const [, whole = '', fraction = '', exponent = '0'] = match
  const all = `${whole}${fraction}`
  const leading = /^0*/.exec(all)![0].length
  const significant = all.slice(leading).replace(/0+$/, '')
  return { significant, point: significant === '' ? 0 : whole.length - leading + Number(exponent) }
}

/** How many digits the number needs before and after the point; null if the text is not a number. */
export function countDigits(text: string): { whole: number; scale: number } | null {
  const read = readSignificant(text)
  if (read === null) return null
  const { significant, point } = read
  return { whole: Math.max(0, point), scale: Math.max(0, significant.length - point) }
}

/** Whether both are the same number, to the last digit. */
function sameNumber(one: string, other: string): boolean {
  const [left, right] = [readSignificant(one), readSignificant(other)]
  return left !== null && right !== null && left.significant === right.significant && left.point === right.point
}

/** Every decimal with this many digits survives a round trip through a float64. */
export const FLOAT64_DIGITS = 15
export const FLOAT32_DIGITS = 6

/** Whether the number survives a round trip through a double, digit for digit. */
export function fitsFloat64(text: string): boolean {
  const value = Number(text)
  return Number.isFinite(value) && (isShort(text, FLOAT64_DIGITS) || sameNumber(String(Math.abs(value)), text))
}

export function fitsFloat32(text: string): boolean {
  const value = Math.abs(Math.fround(Number(text)))
  if (!Number.isFinite(value) || (value === 0 && !isShort(text, 0))) return false
  if (isShort(text, FLOAT32_DIGITS)) return true
  // The shortest text that identifies this float.
  for (let digits = FLOAT32_DIGITS + 1; digits <= 9; digits += 1) {
    const shown = value.toPrecision(digits)
    if (Math.fround(Number(shown)) === value) return sameNumber(shown, text)
  }
  return false
}

function isShort(text: string, digits: number): boolean {
  const read = readSignificant(text)
  return read !== null && read.significant.length <= digits && Math.abs(read.point) < 37
}

/** The shortest text that parses back to the same float32. */
export function shortestFloat32(number: number): string {
  const value = Math.fround(number)
  for (let digits = FLOAT32_DIGITS; digits < 9; digits += 1) {
    const shown = Number(value.toPrecision(digits))
    if (Math.fround(shown) === value) return String(shown)
  }
  return String(Number(value.toPrecision(9)))
}
