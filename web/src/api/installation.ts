/** What a stranger may know about this installation. The server writes it into the page (http/console.ts). */
interface Installation {
  signup: 'open' | 'invited'
  /** An identity provider is configured. */
  provider: boolean
}

const DEFAULT: Installation = { signup: 'open', provider: false }

export const installation: Installation = read()

function read(): Installation {
  const content = document.querySelector<HTMLMetaElement>('meta[name="sluice"]')?.content
  return content ? { ...DEFAULT, ...JSON.parse(content) } : DEFAULT
}
