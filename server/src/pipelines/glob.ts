/** Whether a name matches a pattern in which * stands for any characters and ? for one. Linear in practice: it only ever returns to the last *. */
export function matchesGlob(pattern: string, name: string): boolean {
  let [at, star, marked] = [0, -1, 0]
  for (let index = 0; index < name.length; ) {
    const character = pattern[at]
    if (character === '*') {
      star = at++
      marked = index
    } else if (character === '?' || (character !== undefined && character === name[index])) {
      at++
      index++
    } else if (star >= 0) {
      at = star + 1
      index = ++marked
    } else return false
  }
  while (pattern[at] === '*') at++
  return at === pattern.length
}
