/**
 * `--help` of every bench: the comment at the beginning of its file. Imported first, so that nothing else has started.
 */
import { readFileSync } from 'node:fs'

if (process.argv.includes('--help')) {
  const [, comment = ''] = /^\/\*\*\n(.*?)\*\//s.exec(readFileSync(process.argv[1]!, 'utf8')) ?? []
  console.log(comment.replace(/^ \* ?/gm, '').trimEnd())
  process.exit()
}
