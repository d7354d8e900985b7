-- People, organizations, sessions and the audit log.

CREATE TABLE users (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  email text NOT NULL CHECK (email = lower(email)),
  name text NOT NULL,
  avatar_url text,
  password_hash text,
  last_organization_id uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz
);
CREATE UNIQUE INDEX users_email_key ON users (email);

CREATE TABLE organizations (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  name text NOT NULL,
  slug text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz
);
CREATE UNIQUE INDEX organizations_slug_key ON organizations (slug);

CREATE TABLE memberships (
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  role text NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
  joined_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX memberships_user_idx ON memberships (user_id);
CREATE INDEX memberships_joined_idx ON memberships (organization_id, joined_at DESC, user_id);
-- An organization never has two owners. That it never has none is kept by the functions that change roles.
CREATE UNIQUE INDEX memberships_owner_key ON memberships (organization_id) WHERE role = 'owner';

-- A session is one sign-in: a family of refresh tokens in one organization.
CREATE TABLE sessions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  revoked_at timestamptz
);
CREATE INDEX sessions_user_idx ON sessions (user_id);
CREATE INDEX sessions_expires_idx ON sessions (expires_at);

CREATE TABLE refresh_tokens (
  token_hash bytea PRIMARY KEY,
  session_id uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT now(),
  used_at timestamptz
);
CREATE INDEX refresh_tokens_session_idx ON refresh_tokens (session_id);

-- Sign-in attempts per address and per client, in windows that begin with the first one.
CREATE TABLE login_attempts (
  key text PRIMARY KEY,
  window_start timestamptz NOT NULL DEFAULT now(),
  attempts integer NOT NULL DEFAULT 0
);
CREATE INDEX login_attempts_window_idx ON login_attempts (window_start);

CREATE TABLE audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  organization_id uuid REFERENCES organizations (id) ON DELETE CASCADE,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  actor_id uuid,
  actor_email text,
  api_key_id uuid,
  action text NOT NULL,
  object_type text NOT NULL,
  object_id text,
  details jsonb NOT NULL DEFAULT '{}',
  request_id text,
  client_address text
);
-- One per filter, each in the order of the list, so that any of them combines with a time and a cursor.
CREATE INDEX audit_log_organization_idx ON audit_log (organization_id, at DESC, id DESC);
CREATE INDEX audit_log_actor_idx ON audit_log (organization_id, actor_id, at DESC, id DESC);
CREATE INDEX audit_log_action_idx ON audit_log (organization_id, action, at DESC, id DESC);
CREATE INDEX audit_log_type_idx ON audit_log (organization_id, object_type, at DESC, id DESC);
CREATE INDEX audit_log_object_idx ON audit_log (organization_id, object_id, at DESC, id DESC);
