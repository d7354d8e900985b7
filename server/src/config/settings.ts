/**
 * Every setting, declared once. docs/configuration.md, `sluice config`, the check at start and the type of the
 * configuration all come from this list.
 */
import {
  addressList,
  allowList,
  atLeast,
  classList,
  databaseUrl,
  domainList,
  integer,
  keyRing,
  moduleList,
  oneOf,
  optional,
  type Setting,
  sender,
  text,
  url,
} from './setting-kinds.ts'

/** These come with the machine, so none is refused where it is not used. */
const AMBIENT = 'With S3_CREDENTIALS=ambient:'

export const settings = {
  HOST: { ...text('an address or host name'), default: '127.0.0.1', about: 'Address the service listens on.' },
  PORT: { ...integer(0, 65535), default: 8080, about: 'Port the service listens on; 0 takes a free one.' },
  PUBLIC_URL: {
    ...optional(url('http:', 'https:')),
    shown: 'http://HOST:PORT',
    about: 'URL under which people and identity providers reach the service.',
  },
  FRONTEND_URL: {
    ...optional(url('http:', 'https:')),
    shown: 'PUBLIC_URL',
    about:
      'URL of the web console: invitation links and sign-in redirects go there, and it is the only other origin that may call the API from a browser.',
  },
  DATA_DIR: {
    ...text('a folder'),
    default: './data',
    about: 'Folder for all stored data: the embedded database, blobs and generated secrets.',
  },
  DATABASE_URL: {
    ...optional(databaseUrl),
    secret: true,
    shown: 'the embedded PostgreSQL',
    about:
      'A PostgreSQL to use instead of the embedded one. JWT_SECRET_KEY and ENCRYPTION_KEY are required with it. It may name several servers (`a:5432,b:5432`), of which the primary is used. `sslmode` has the same meaning as in libpq; `sslrootcert`, `sslcert` and `sslkey` name files; `options` (`-c name=value`) sets session settings.',
  },
  DATABASE_POOL: {
    ...optional(integer(2, 500)),
    shown: '10 for the API, 4 for a worker or a scheduler, added up for roles in one process',
    about:
      'The maximum number of database connections that one process uses for requests, logs and cleanup. In addition, a process has up to three for claims, leases and schedules, and one that listens.',
  },
  BLOB_URL: {
    ...optional(url('file:', 's3:')),
    shown: 'DATA_DIR/blobs',
    about: 'Where outputs and logs are stored: file:///folder or s3://bucket/prefix.',
  },
  ENCRYPTION_KEY: {
    ...optional(keyRing),
    secret: true,
    shown: 'generated at the first start, stored in DATA_DIR',
    about: 'Keys that encrypt configurations at rest.',
  },
  JWT_SECRET_KEY: {
    ...optional(atLeast(8)),
    secret: true,
    shown: 'generated at the first start, stored in DATA_DIR',
    about: 'Signing secret of tokens. Use 32 characters or more.',
  },
  JWT_ALGORITHM: {
    ...oneOf('HS256', 'HS384', 'HS512'),
    default: 'HS256' as const,
    about: 'Signing algorithm of tokens.',
  },
  JWT_ACCESS_TOKEN_EXPIRE_MINUTES: { ...integer(1, 525_600), default: 1440, about: 'Lifetime of an access token.' },
  JWT_REFRESH_TOKEN_EXPIRE_DAYS: { ...integer(1, 3650), default: 7, about: 'Lifetime of a refresh token.' },
  SIGNUP: {
    ...oneOf('open', 'invited'),
    default: 'open' as const,
    about: 'Who may register: anyone, or only people with an invitation.',
  },
  INVITATION_DAYS: { ...integer(1, 365), default: 7, about: 'Lifetime of an invitation.' },
  IDP_ISSUER: {
    ...optional(url('http:', 'https:')),
    about: 'Issuer of an OpenID Connect identity provider; its endpoints are discovered.',
  },
  IDP_CLIENT_ID: { ...optional(text()), about: 'Client id at the identity provider.' },
  IDP_CLIENT_SECRET: { ...optional(text()), secret: true, about: 'Client secret at the identity provider.' },
  IDP_REDIRECT_URL: {
    ...optional(url('http:', 'https:')),
    shown: 'PUBLIC_URL/api/auth/idp/callback',
    about: 'Callback address registered at the identity provider.',
  },
  IDP_AUTHORIZE_URL: {
    ...optional(url('http:', 'https:')),
    about: 'Authorization address of a plain OAuth 2.0 provider, instead of IDP_ISSUER.',
  },
  IDP_TOKEN_URL: { ...optional(url('http:', 'https:')), about: 'Token address of a plain OAuth 2.0 provider.' },
  IDP_USERINFO_URL: { ...optional(url('http:', 'https:')), about: 'User info address of a plain OAuth 2.0 provider.' },
  IDP_SCOPE: {
    ...optional(text()),
    shown: 'openid email profile',
    about: 'Scopes requested from the identity provider.',
  },
  SECRETS: {
    ...oneOf('readable', 'write_only'),
    default: 'readable' as const,
    about:
      '`readable`: members with write permission see the secrets in configurations. `write_only`: a saved secret is never shown again.',
  },
  EGRESS_ALLOW: {
    ...allowList,
    default: [] as string[],
    about: 'Private CIDRs, host names and host:port that connectors and tenant code may reach.',
  },
  SMTP_URL: {
    ...optional(url('smtp:', 'smtps:')),
    secret: true,
    about:
      'Mail server for alerts by e-mail, such as smtp://user:password@mail.example.com:587. smtps uses TLS from the start; smtp upgrades to it where the server can, and always if there is a password. Without it there are no alerts by e-mail.',
  },
  SMTP_FROM: {
    ...optional(sender),
    about: 'Sender of these mails, such as `Sluice <alerts@example.com>`. Required with SMTP_URL.',
  },
  ALERT_EMAIL_DOMAINS: {
    ...domainList,
    default: [] as string[],
    about:
      'Domains whose addresses alerts may be sent to, such as example.com, besides proven ones of members of the organization.',
  },
  WORKER_CONCURRENCY: { ...integer(1, 1000), default: 8, about: 'Runs that one worker executes concurrently.' },
  ORG_CONCURRENCY: { ...integer(1, 1000), default: 4, about: 'Concurrent runs of one organization.' },
  ORG_MAX_PIPELINES: {
    ...optional(integer(1, 10_000_000)),
    about: 'The maximum number of pipelines of one organization; more are refused with 409.',
  },
  ORG_MAX_PENDING_RUNS: {
    ...optional(integer(1, 10_000_000)),
    about: 'The maximum number of pending runs of one organization; more are refused with 429.',
  },
  POD_CLASSES: {
    ...classList,
    default: [] as string[],
    about:
      'Classes of machine for runs with a process of their own (`run.isolation` pod), such as small,large. For each, something starts `sluice worker --once --class NAME` while runs wait, as the Helm chart does; the first one is the default. Without it such a pipeline is refused.',
  },
  RUN_TIMEOUT_MINUTES: {
    ...integer(1, 525_600),
    default: 720,
    about: 'A run that takes longer fails. A pipeline may set a lower limit, never a higher one.',
  },
  CALL_CONCURRENCY: {
    ...integer(2, 1000),
    default: 8,
    about:
      'Concurrent checks, stream listings, previews, validations and queries per API process, each in its own process; one organization gets at most half of them.',
  },
  CALL_MEMORY_MB: {
    ...integer(128, 65_536),
    default: 256,
    about: 'A check, preview or query whose process uses more memory fails.',
  },
  RUN_MEMORY_MB: { ...integer(128, 1_048_576), default: 512, about: 'A run whose executor uses more memory fails.' },
  RUN_CHECKPOINT_MS: {
    ...integer(50, 600_000),
    default: 5000,
    about: 'The longest time between two checkpoints of a run, while it makes progress.',
  },
  RUN_LEASE_SECONDS: {
    ...integer(2, 300),
    default: 15,
    about: 'A run whose worker has not renewed its lease for this long is taken over by another worker.',
  },
  RUN_LOG_MB: {
    ...integer(1, 1024),
    default: 16,
    about:
      'The maximum size of the log of a run. Of a longer log, the beginning and the end are kept, half of this size each.',
  },
  RUN_RETENTION_DAYS: {
    ...integer(1, 36_500),
    default: 30,
    about: 'Outputs and logs are removed after this time, except those of the last successful run.',
  },
  RUN_HISTORY_DAYS: {
    ...optional(integer(1, 36_500)),
    shown: 'for ever',
    about:
      'Runs are deleted this long after they ended, with their outputs and logs, except the last run and the last successful run of each pipeline.',
  },
  AUDIT_RETENTION_DAYS: {
    ...optional(integer(1, 36_500)),
    shown: 'for ever',
    about: 'Entries of the audit log are deleted after this time.',
  },
  DRAIN_SECONDS: {
    ...integer(0, 3600),
    default: 8,
    about: 'How long work in progress may continue after SIGTERM; the process exits at most 2 s later.',
  },
  ORG_STORAGE_GB: {
    ...optional(integer(1, 1_000_000)),
    shown: 'no limit',
    about: 'The maximum storage for the outputs of one organization, compressed as they are stored.',
  },
  CELL_MEMORY_MB: { ...integer(64, 65_536), default: 512, about: 'Memory of one Python cell.' },
  CELL_CPU_SECONDS: { ...integer(1, 1_000_000), default: 3600, about: 'CPU time of one run of a custom source.' },
  CELL_WALL_SECONDS: { ...integer(1, 1_000_000), default: 43_200, about: 'Wall time of one run of a custom source.' },
  CELL_MAX_RECORDS: {
    ...optional(integer(1, 2 ** 48)),
    shown: 'no limit',
    about: 'Records that one run of a custom source may yield.',
  },
  CELL_MAX_BYTES: {
    ...optional(integer(1024, 2 ** 48)),
    shown: 'no limit',
    about: 'Bytes that one run of a custom source may yield.',
  },
  CELL_LOG_BYTES: {
    ...integer(1024, 2 ** 30),
    default: 1_048_576,
    about: 'Bytes that one custom source may write to its log.',
  },
  CELL_MAX_REQUESTS: {
    ...integer(1, 2 ** 31),
    default: 1_000_000,
    about: 'HTTP requests that one run of a custom source may make.',
  },
  CELL_MAX_RESPONSE_BYTES: {
    ...integer(1024, 2 ** 31),
    default: 64 * 1024 ** 2,
    about: 'Bytes of one HTTP answer to a custom source, after decompression.',
  },
  CELL_MODULES: {
    ...moduleList,
    default: [] as string[],
    about:
      'Installed Python modules that custom sources may import beyond the standard ones, such as pandas,pydantic. SECURITY.md says what that means.',
  },
  PYTHON: { ...text('a Python 3.9 or later'), default: 'python3', about: 'Python that runs custom sources.' },
  SANDBOX: {
    ...oneOf('required', 'none'),
    default: 'required' as const,
    about: '`none` runs tenant code without the cell: only for machines where every author is trusted.',
  },
  S3_ENDPOINT: { ...optional(url('http:', 'https:')), about: 'Address of an S3-compatible store.' },
  S3_REGION: { ...text(), default: 'us-east-1', about: 'Region of the S3 bucket.' },
  S3_ACCESS_KEY_ID: { ...optional(text()), about: 'Access key of the S3 bucket.' },
  S3_SECRET_ACCESS_KEY: { ...optional(text()), secret: true, about: 'Secret key of the S3 bucket.' },
  S3_CREDENTIALS: {
    ...oneOf('keys', 'ambient'),
    default: 'keys' as const,
    about:
      'Where the keys of the S3 bucket of BLOB_URL come from. `keys`: S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY. `ambient`: the machine, by the first of the AWS_ settings that are set, or by its instance metadata. A connector never uses these.',
  },
  AWS_ACCESS_KEY_ID: { ...optional(text()), about: `${AMBIENT} an access key from the environment.` },
  AWS_SECRET_ACCESS_KEY: { ...optional(text()), secret: true, about: `${AMBIENT} its secret.` },
  AWS_SESSION_TOKEN: { ...optional(text()), secret: true, about: `${AMBIENT} its session token, if it is temporary.` },
  AWS_WEB_IDENTITY_TOKEN_FILE: {
    ...optional(text()),
    about: `${AMBIENT} a file with a token that is exchanged for a role, as Kubernetes service accounts have.`,
  },
  AWS_ROLE_ARN: { ...optional(text()), about: `${AMBIENT} the role that the token is exchanged for.` },
  AWS_ROLE_SESSION_NAME: { ...optional(text()), shown: '`sluice`', about: `${AMBIENT} the name of that session.` },
  AWS_ENDPOINT_URL_STS: {
    ...optional(text()),
    shown: 'that of the region',
    about: `${AMBIENT} the security token service.`,
  },
  AWS_CONTAINER_CREDENTIALS_FULL_URI: {
    ...optional(text()),
    about: `${AMBIENT} an address that answers with credentials, as ECS and EKS set it.`,
  },
  AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: {
    ...optional(text()),
    about: `${AMBIENT} the same as a path, as ECS sets it.`,
  },
  AWS_CONTAINER_AUTHORIZATION_TOKEN: {
    ...optional(text()),
    secret: true,
    about: `${AMBIENT} the authorization for that address.`,
  },
  AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: { ...optional(text()), about: `${AMBIENT} a file that holds it.` },
  AWS_EC2_METADATA_DISABLED: {
    ...optional(text()),
    about: `${AMBIENT} true does without the instance metadata.`,
  },
  AWS_EC2_METADATA_SERVICE_ENDPOINT: {
    ...optional(text()),
    shown: 'http://169.254.169.254',
    about: `${AMBIENT} the instance metadata service.`,
  },
  HEALTH_PORT: {
    ...optional(integer(1, 65535)),
    about:
      'Port on which a separate worker or scheduler process answers /healthz, /readyz and /metrics; the API has them on PORT.',
  },
  METRICS_TOKEN: {
    ...optional(atLeast(8)),
    secret: true,
    about: 'Bearer token for GET /metrics, and for the details of GET /readyz; without it both are off.',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    ...optional(url('http:', 'https:')),
    about: 'Where traces are sent, as OTLP over HTTP: a span for every request and every attempt of a run.',
  },
  TRUSTED_PROXIES: {
    ...addressList,
    default: [] as string[],
    about: 'Addresses and CIDRs of proxies whose X-Forwarded-For is trusted.',
  },
  LOG_LEVEL: {
    ...oneOf('debug', 'info', 'warn', 'error', 'silent'),
    default: 'info' as const,
    about: 'How much the service logs.',
  },
} satisfies Record<string, Setting<never> | object>
