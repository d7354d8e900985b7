/** A service's answer to its executor about a refresh token. */
import type { RefreshTokens } from '../connectors/authentication/refresh-tokens.ts'
import { ConnectorError } from '../connectors/contract.ts'
import type { ToExecutor, TokenQuestion } from './messages.ts'

/** A failure is reported to the executor, which never uses a token that is not stored. */
export async function answerTokenQuestion(tokens: RefreshTokens, question: TokenQuestion): Promise<ToExecutor> {
  const { id } = question
  try {
    const token =
      question.type === 'refresh_begin'
        ? await tokens.begin(question.held, question.path)
        : await tokens.end(question.used, question.rotated, question.kept)
    return { type: 'refresh_token', id, token }
  } catch (error) {
    if (error instanceof ConnectorError) return { type: 'refused', id, message: error.message }
    return { type: 'refused', id, message: 'The refresh token could not be stored, so it was not used.' }
  }
}
