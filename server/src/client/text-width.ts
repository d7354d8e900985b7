/** How many columns of a terminal a text takes. */

/** Those of two columns: East Asian wide and full-width characters, and emoji. */
const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|^[\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]|^\p{Emoji_Presentation}/u
const NONE = /^[\p{Mn}\p{Me}]|^[\u200b-\u200d]/u

const ofCharacter = (character: string): number => {
  if (character < '\u0300') return 1
  if (NONE.test(character)) return 0
  return WIDE.test(character) ? 2 : 1
}

export function widthOf(text: string): number {
  let width = 0
  for (const character of text) width += ofCharacter(character)
  return width
}

/** Cut to a width, with an ellipsis for what is missing. */
export function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  let kept = ''
  let used = 0
  for (const character of text) {
    used += ofCharacter(character)
    if (used > width - 1) break
    kept += character
  }
  return width > 0 ? `${kept}…` : ''
}
