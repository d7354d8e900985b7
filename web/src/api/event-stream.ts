/** Server-sent events over fetch, because an EventSource cannot send the token in a header. */
export interface ServerEvent {
  id: string | null
  event: string
  data: string
}

export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  let rest = ''
  for await (const text of body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)) {
    const blocks = (rest + text).split('\n\n')
    rest = blocks.pop()!
    for (const block of blocks) yield parseEvent(block)
  }
}

function parseEvent(block: string): ServerEvent {
  const event: ServerEvent = { id: null, event: 'message', data: '' }
  const data: string[] = []
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':')
    if (colon <= 0) continue
    const value = line.slice(colon + 1).replace(/^ /, '')
    const field = line.slice(0, colon)
    if (field === 'data') data.push(value)
    else if (field === 'id') event.id = value
    else if (field === 'event') event.event = value
  }
  event.data = data.join('\n')
  return event
}
