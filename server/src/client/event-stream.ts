/** Reads server-sent events. One is bounded, so that a server cannot fill the memory with it. */
import { OperatorError } from '../errors.ts'

interface ServerEvent {
  id: string
  event: string
  data: string
}

const MOST_CHARACTERS = 1024 * 1024

export async function* readEvents(chunks: AsyncIterable<Buffer>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of chunks) {
    text += decoder.decode(chunk, { stream: true })
    const blocks = text.split('\n\n')
    text = blocks.pop()!
    if (text.length > MOST_CHARACTERS)
      throw new OperatorError(
        'The service sent an event of more than 1 MB, so it is not followed; run the command without --follow.',
      )
    for (const block of blocks) {
      const event = parse(block)
      if (event !== null) yield event
    }
  }
}

/** Null for a comment, which only keeps the connection open. */
function parse(block: string): ServerEvent | null {
  const fields = new Map<string, string>()
  for (const line of block.split('\n')) {
    const [, name, value] = /^(\w+): ?(.*)$/s.exec(line) ?? []
    if (name !== undefined) fields.set(name, fields.has(name) ? `${fields.get(name)}\n${value}` : value!)
  }
  if (!fields.has('event') && !fields.has('data')) return null
  return { id: fields.get('id') ?? '', event: fields.get('event') ?? 'message', data: fields.get('data') ?? '' }
}
