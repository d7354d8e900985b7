/** Inside an executor: requests to its service, which alone can reach the database. */
import type { RefreshTokens } from '../connectors/authentication/refresh-tokens.ts'
import { ConnectorError } from '../connectors/contract.ts'
import type { ToExecutor, TokenQuestion } from './messages.ts'

interface Asked {
  resolve(answer: string): void
  reject(error: Error): void
}

export class Questions {
  readonly #asked = new Map<number, Asked>()
  #nextId = 1

  ask(send: (id: number) => void): Promise<string> {
    const id = this.#nextId++
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject })
      send(id)
    })
  }

  answer(message: ToExecutor): void {
    if (!('id' in message)) return
    const asked = this.#asked.get(message.id)
    this.#asked.delete(message.id)
    if (message.type === 'refused') asked?.reject(new ConnectorError('internal', message.message))
    else asked?.resolve(message.type === 'refresh_token' ? message.token : '')
  }
}

/** Refresh tokens are stored by the service. */
export const storedByService = (questions: Questions, send: (question: TokenQuestion) => void): RefreshTokens => ({
  begin: (held, path) => questions.ask((id) => send({ type: 'refresh_begin', id, held, ...(path && { path }) })),
  end: (used, rotated, kept) =>
    questions.ask((id) => send({ type: 'refresh_end', id, used, rotated, ...(kept && { kept }) })),
})
