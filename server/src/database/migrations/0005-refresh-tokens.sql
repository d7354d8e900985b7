-- Who is exchanging the refresh token of a saved connector or a pipeline. A provider that replaces tokens revokes the
-- whole grant when one is used twice, so there is one exchange at a time over all processes. The lease ends by itself, in
-- case its holder dies.
CREATE TABLE refresh_leases (
  -- saved_connectors.id or pipelines.id.
  credential_id uuid PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  holder uuid NOT NULL,
  lease_until timestamptz NOT NULL
);

-- Hashes of refresh tokens that were replaced, so that one which comes back in a config is known to be old.
CREATE TABLE superseded_tokens (
  -- saved_connectors.id or pipelines.id.
  credential_id uuid NOT NULL,
  token_hash bytea NOT NULL,
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  superseded_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (credential_id, token_hash)
);
CREATE INDEX superseded_tokens_time_idx ON superseded_tokens (superseded_at);
