/**
 * Names of headers are compared without case, and the plan keeps them in lower case: a literal name of a header in a
 * template is written in lower case, too. In Airbyte `link` is the parsed header and `Link` its text: what is not asked
 * for a relation at once is taken as text.
 */
const NAMED = /\bheaders(\s*\[\s*|\s*\.\s*get\s*\(\s*)(["'])([^"']*)\2/g
const RELATION = /^\s*(?:,\s*\{\s*\}\s*)?[\])]\s*(?:\[\s*["']|\.\s*(?:get\b|next\b))/
export const LINK_TEXT = 'link text'
const CONTAINED = /(["'])([^"']*)\1(\s+(?:not\s+)?in\s+headers\b)/g

export function lowerHeaderNames(source: string): string {
  if (!source.includes('headers')) return source
  return source
    .replace(
      NAMED,
      (found: string, access: string, quote: string, name: string, at: number) =>
        `headers${access}${quote}${keyOf(name, source.slice(at + found.length))}${quote}`,
    )
    .replace(CONTAINED, (_, quote: string, name: string, rest: string) => `${quote}${keyOf(name, '')}${quote}${rest}`)
}

function keyOf(name: string, rest: string): string {
  const lower = name.toLowerCase()
  return lower === 'link' && name !== lower && !RELATION.test(rest) ? LINK_TEXT : lower
}
