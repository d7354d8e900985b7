/**
 * A server in a separate process, like every real one, that answers with few bytes. A request for /turn is reported to
 * the parent, and answered when the parent says `go`.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

let waiting: ServerResponse | null = null
const server = createServer((request, response) => {
  if (request.url === '/turn') {
    waiting = response
    process.send!('turn')
  } else response.end('{"rows":[{"id":1,"name":"one"}]}')
})
process.on('message', () => waiting!.end('{}'))
process.on('disconnect', () => process.exit())
server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port))
