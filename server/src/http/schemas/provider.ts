import { Type } from '../../schema.ts'

/** Only the characters of an invitation token, because it is stored in a cookie. */
export const StartQuery = Type.Object({
  invitation: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{1,200}$',
      description:
        'An invitation token. It comes back as `&invitation=` for the person to accept; it is never accepted automatically',
    }),
  ),
})

/** Nothing is refused here: providers add their own parameters, and errors are sent to the frontend. */
export const CallbackQuery = Type.Object({
  state: Type.Optional(Type.Unknown({ description: 'As we sent it' })),
  code: Type.Optional(Type.Unknown({ description: 'The authorization code' })),
  iss: Type.Optional(Type.Unknown({ description: 'The issuer, if the provider sends it' })),
  error: Type.Optional(Type.Unknown({ description: 'Why the provider refused' })),
})

export const RedirectUrl = Type.Object({
  redirect_url: Type.String({ format: 'uri', description: 'Send the browser here, within ten minutes' }),
})

export const Redirect = Type.Null({ description: 'To the address in the Location header' })
