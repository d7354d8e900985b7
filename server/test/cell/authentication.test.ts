/** The authentication of custom sources: applied by the broker, through the same fetch as everywhere. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pythonSource } from '../../src/cell/python-source.ts'
import { createFetch } from '../../src/connectors/authentication/fetch.ts'
import { testAuthentication } from '../harness/auth-suite.ts'
import { createSaid } from '../harness/said.ts'
import { openCells, openEgress, readSource, SMALL_LIMITS, writeSource } from './harness.ts'

const zygote = openCells({ limits: SMALL_LIMITS })
const egress = openEgress()
const said = createSaid()
const { auth_types: types } = pythonSource({
  source_name: 'mine',
  display_name: 'Mine',
  description: '',
  code: '',
  streams: ['a'],
})

testAuthentication({
  types,
  said,
  async open(auth) {
    const server = createServer((request, response) => {
      response.writeHead(auth.admits(request.headers) ? 200 : 401).end('[{"n":1},{"n":2},{"n":3}]')
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const code = writeSource(`yield from self.http.get("${url}").raise_for_status().json()`)
    return {
      records: 3,
      async read(authentication, refreshTokens) {
        const fetch = createFetch({ egress, authentication, ...(refreshTokens && { refreshTokens }) })
        const { records, failure, logs } = await readSource(zygote, code, { fetch, authentication })
        logs.forEach(said.add)
        if (failure) throw failure
        return records.length
      },
      async close() {
        server.closeAllConnections()
        server.close()
      },
    }
  },
})
