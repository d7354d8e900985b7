-- Domains, overrides, invitations, API keys and identities at the provider.

CREATE TABLE domains (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name text NOT NULL,
  description text,
  color text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz,
  UNIQUE (organization_id, id)
);
CREATE UNIQUE INDEX domains_name_key ON domains (organization_id, name);
CREATE INDEX domains_created_idx ON domains (organization_id, created_at DESC, id);

CREATE TABLE domain_roles (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL,
  user_id uuid NOT NULL,
  domain_id uuid NOT NULL,
  role text NOT NULL CHECK (role IN ('admin', 'member')),
  created_at timestamptz NOT NULL DEFAULT now(),
  FOREIGN KEY (organization_id, user_id) REFERENCES memberships (organization_id, user_id) ON DELETE CASCADE,
  FOREIGN KEY (organization_id, domain_id) REFERENCES domains (organization_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX domain_roles_key ON domain_roles (organization_id, user_id, domain_id);
CREATE INDEX domain_roles_domain_idx ON domain_roles (organization_id, domain_id);

CREATE TABLE invitations (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  email text NOT NULL CHECK (email = lower(email)),
  role text NOT NULL CHECK (role IN ('admin', 'member', 'viewer')),
  token_hash bytea NOT NULL,
  status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'cancelled', 'expired')),
  invited_by uuid REFERENCES users (id) ON DELETE SET NULL,
  accepted_by uuid REFERENCES users (id) ON DELETE SET NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  ended_at timestamptz
);
CREATE UNIQUE INDEX invitations_token_key ON invitations (token_hash);
-- One pending invitation per address: an expired one is marked so before a new one is made.
CREATE UNIQUE INDEX invitations_pending_key ON invitations (organization_id, email) WHERE status = 'pending';
CREATE INDEX invitations_created_idx ON invitations (organization_id, created_at DESC, id) WHERE status = 'pending';
CREATE INDEX invitations_email_idx ON invitations (email) WHERE status = 'pending';

CREATE TABLE api_keys (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  created_by uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name text NOT NULL,
  key_prefix text NOT NULL,
  key_hash bytea NOT NULL,
  scopes jsonb NOT NULL DEFAULT '{}',
  last_used_at timestamptz,
  expires_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz
);
CREATE UNIQUE INDEX api_keys_hash_key ON api_keys (key_hash);
CREATE INDEX api_keys_created_idx ON api_keys (organization_id, created_at DESC, id) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_creator_idx ON api_keys (created_by);

-- A session that was opened by an API key ends with that key and may do no more than it.
ALTER TABLE sessions ADD COLUMN api_key_id uuid REFERENCES api_keys (id) ON DELETE CASCADE;
CREATE INDEX sessions_api_key_idx ON sessions (api_key_id) WHERE api_key_id IS NOT NULL;

CREATE TABLE user_identities (
  issuer text NOT NULL,
  subject text NOT NULL,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  email text,
  created_at timestamptz NOT NULL DEFAULT now(),
  last_used_at timestamptz,
  PRIMARY KEY (issuer, subject)
);
CREATE INDEX user_identities_user_idx ON user_identities (user_id);

-- A sign-in under way at the provider. The state is stored hashed and removed when it comes back.
CREATE TABLE idp_states (
  state_hash bytea PRIMARY KEY,
  browser_hash bytea NOT NULL,
  code_verifier text NOT NULL,
  nonce text NOT NULL,
  link_user_id uuid REFERENCES users (id) ON DELETE CASCADE,
  link_organization_id uuid REFERENCES organizations (id) ON DELETE CASCADE,
  invitation_token text,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);
CREATE INDEX idp_states_expires_idx ON idp_states (expires_at);
