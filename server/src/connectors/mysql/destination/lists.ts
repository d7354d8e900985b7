/** Lists in the contract's text form, `{1,NULL,"b c"}`, as JSON. Numbers stay numbers; everything else is a string. */

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

export function listToJson(text: string): string {
  let at = 0
  function readList(): string {
    const items: string[] = []
    at += 1
    while (at < text.length && text[at] !== '}') {
      items.push(readItem())
      if (text[at] === ',') at += 1
    }
    at += 1
    return `[${items.join(',')}]`
  }
  function readItem(): string {
    if (text[at] === '{') return readList()
    if (text[at] === '"') return JSON.stringify(readQuoted())
    const start = at
    while (at < text.length && text[at] !== ',' && text[at] !== '}') at += 1
    const word = text.slice(start, at)
    if (word === 'NULL') return 'null'
    return NUMBER.test(word) ? word : JSON.stringify(word)
  }
  function readQuoted(): string {
    let value = ''
    for (at += 1; at < text.length && text[at] !== '"'; at += 1) {
      if (text[at] === '\\') at += 1
      value += text[at] ?? ''
    }
    at += 1
    return value
  }
  return text.startsWith('{') ? readList() : JSON.stringify(text)
}
