import { Type } from 'typebox'

/** Nothing but what an invitation token is made of: it travels in a cookie. */
export const StartQuery = Type.Object({
  invitation: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{1,200}$',
      description:
        'The token of an invitation. It comes back as `&invitation=` for the person to accept; it is never accepted by itself',
    }),
  ),
})

/** Providers add parameters of their own, and a bad answer goes to the frontend as an error, so nothing is refused here. */
export const CallbackQuery = Type.Object({
  state: Type.Optional(Type.Unknown({ description: 'As it was sent' })),
  code: Type.Optional(Type.Unknown({ description: 'The authorization code' })),
  iss: Type.Optional(Type.Unknown({ description: 'The issuer, where the provider names it' })),
  error: Type.Optional(Type.Unknown({ description: 'Why the provider said no' })),
})

export const RedirectUrl = Type.Object({
  redirect_url: Type.String({ format: 'uri', description: 'Send the browser here, within ten minutes' }),
})

export const Redirect = Type.Null({ description: 'To the address in the Location header' })
