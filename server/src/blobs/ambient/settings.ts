/** The settings of `S3_CREDENTIALS=ambient`, under the names that AWS gives them. */
export interface AmbientSettings {
  AWS_ACCESS_KEY_ID?: string | null | undefined
  AWS_SECRET_ACCESS_KEY?: string | null | undefined
  AWS_SESSION_TOKEN?: string | null | undefined
  AWS_WEB_IDENTITY_TOKEN_FILE?: string | null | undefined
  AWS_ROLE_ARN?: string | null | undefined
  AWS_ROLE_SESSION_NAME?: string | null | undefined
  AWS_ENDPOINT_URL_STS?: string | null | undefined
  AWS_CONTAINER_CREDENTIALS_FULL_URI?: string | null | undefined
  AWS_CONTAINER_CREDENTIALS_RELATIVE_URI?: string | null | undefined
  AWS_CONTAINER_AUTHORIZATION_TOKEN?: string | null | undefined
  AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE?: string | null | undefined
  AWS_EC2_METADATA_DISABLED?: string | null | undefined
  AWS_EC2_METADATA_SERVICE_ENDPOINT?: string | null | undefined
}

const NAMES = [
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_SESSION_TOKEN',
  'AWS_WEB_IDENTITY_TOKEN_FILE',
  'AWS_ROLE_ARN',
  'AWS_ROLE_SESSION_NAME',
  'AWS_ENDPOINT_URL_STS',
  'AWS_CONTAINER_CREDENTIALS_FULL_URI',
  'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI',
  'AWS_CONTAINER_AUTHORIZATION_TOKEN',
  'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE',
  'AWS_EC2_METADATA_DISABLED',
  'AWS_EC2_METADATA_SERVICE_ENDPOINT',
] as const satisfies (keyof AmbientSettings)[]

/** Only these settings of a larger configuration. */
export function pickAmbientSettings(settings: AmbientSettings): AmbientSettings {
  return Object.fromEntries(NAMES.map((name) => [name, settings[name]]))
}
