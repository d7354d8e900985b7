/** Addresses that carry a secret, although the setting is not marked as one: such as https://user:password@host/. */
const SECRET_PARAMETER = /sig|token|key|secret|pass|auth|credential/i

export function hasSecretInAddress(text: string): boolean {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text) || !URL.canParse(text)) return false
  const { password, searchParams } = new URL(text)
  return password !== '' || [...searchParams.keys()].some((name) => SECRET_PARAMETER.test(name))
}
