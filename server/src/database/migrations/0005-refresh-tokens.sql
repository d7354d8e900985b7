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
