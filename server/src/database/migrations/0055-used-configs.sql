-- What runs used, without secrets, encrypted like every other configuration. The id is a keyed hash (HMAC) of organization
-- and content, so runs of one organization share a row and a dump does not allow guessing at it. Rows of run_configs, which
-- are plain text, are moved here by the cleanup; processes of the release before may still write some.
CREATE TABLE used_configs (
  id uuid PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  config_box bytea NOT NULL,
  UNIQUE (organization_id, id)
);
-- Which pipelines have runs that name it. One that no pipeline uses is deleted.
CREATE TABLE pipeline_used_configs (
  organization_id uuid NOT NULL,
  pipeline_id uuid NOT NULL,
  used_config_id uuid NOT NULL,
  PRIMARY KEY (pipeline_id, used_config_id),
  FOREIGN KEY (organization_id, pipeline_id) REFERENCES pipelines (organization_id, id) ON DELETE CASCADE,
  FOREIGN KEY (organization_id, used_config_id) REFERENCES used_configs (organization_id, id)
);
CREATE INDEX pipeline_used_configs_config_idx ON pipeline_used_configs (used_config_id);
ALTER TABLE runs ADD COLUMN used_config_id uuid;
