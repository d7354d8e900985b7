/** `--help` of every bench: the comment that its file begins with. Imported first, so that nothing else has begun. */
import { readFileSync } from 'node:fs'

if (process.argv.includes('--help')) {
  const [, comment = ''] = /^\/\*\*\n(.*?)\*\//s.exec(readFileSync(process.argv[1]!, 'utf8')) ?? []
  console.log(comment.replace(/^ \* ?/gm, '').trimEnd())
  process.exit()
}
