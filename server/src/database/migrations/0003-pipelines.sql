-- Saved connectors, custom sources and pipelines. What holds credentials is one encrypted value (`…_box`).

CREATE TABLE saved_connectors (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  type text NOT NULL CHECK (type IN ('source', 'destination')),
  name text NOT NULL,
  connector_name text NOT NULL,
  config_box bytea NOT NULL,
  description text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz
);
CREATE INDEX saved_connectors_created_idx ON saved_connectors (organization_id, type, created_at DESC, id);

CREATE TABLE custom_sources (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name text NOT NULL,
  source_name text NOT NULL,
  description text,
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz
);
CREATE UNIQUE INDEX custom_sources_name_key ON custom_sources (organization_id, source_name);
CREATE INDEX custom_sources_created_idx ON custom_sources (organization_id, created_at DESC, id);

CREATE TABLE custom_source_versions (
  custom_source_id uuid NOT NULL REFERENCES custom_sources (id) ON DELETE CASCADE,
  version integer NOT NULL,
  code text NOT NULL,
  streams jsonb NOT NULL,
  config_schema jsonb NOT NULL DEFAULT '{}',
  created_by uuid REFERENCES users (id) ON DELETE SET NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (custom_source_id, version)
);

CREATE TABLE pipelines (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name text NOT NULL,
  config_box bytea NOT NULL,
  source_name text,
  stream text NOT NULL,
  destination_name text,
  saved_source_id uuid,
  saved_destination_id uuid,
  schedule text,
  timezone text,
  enabled boolean NOT NULL DEFAULT true,
  domain_id uuid,
  next_run_at timestamptz,
  -- Kept by the trigger on runs, so that a list needs no look at runs.
  last_run_seq bigint,
  last_run_status text,
  last_run_at timestamptz,
  created_by uuid REFERENCES users (id) ON DELETE SET NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz,
  UNIQUE (organization_id, id),
  FOREIGN KEY (organization_id, domain_id) REFERENCES domains (organization_id, id) ON DELETE RESTRICT
);
CREATE INDEX pipelines_created_idx ON pipelines (organization_id, created_at DESC, id);
CREATE INDEX pipelines_domain_idx ON pipelines (organization_id, domain_id, created_at DESC, id);
CREATE INDEX pipelines_source_idx ON pipelines (organization_id, source_name);
CREATE INDEX pipelines_saved_source_idx ON pipelines (saved_source_id) WHERE saved_source_id IS NOT NULL;
CREATE INDEX pipelines_saved_destination_idx ON pipelines (saved_destination_id) WHERE saved_destination_id IS NOT NULL;
CREATE INDEX pipelines_due_idx ON pipelines (next_run_at) WHERE enabled AND next_run_at IS NOT NULL;

-- The cursor of the last committed run, and the schema its destination has. `seq` tells which is newer, this or a mark.
CREATE TABLE pipeline_state (
  pipeline_id uuid PRIMARY KEY REFERENCES pipelines (id) ON DELETE CASCADE,
  seq bigint NOT NULL,
  cursor jsonb NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE pipeline_schemas (
  pipeline_id uuid PRIMARY KEY REFERENCES pipelines (id) ON DELETE CASCADE,
  columns jsonb NOT NULL,
  changes jsonb NOT NULL DEFAULT '[]',
  updated_at timestamptz NOT NULL DEFAULT now()
);
