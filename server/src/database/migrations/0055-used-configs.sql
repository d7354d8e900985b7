-- What runs used, without secrets, encrypted like every other configuration. The id is a keyed hash (HMAC) of pipeline and
-- content: runs of a pipeline that did not change share a row, and a dump does not allow guessing at it. Plain rows, which no
-- release has written, are dropped.
DROP TABLE run_configs;
ALTER TABLE runs DROP COLUMN used_config_hash;
CREATE TABLE used_configs (
  id uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  pipeline_id uuid NOT NULL,
  config_box bytea NOT NULL,
  FOREIGN KEY (organization_id, pipeline_id) REFERENCES pipelines (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX used_configs_pipeline_idx ON used_configs (pipeline_id);
ALTER TABLE runs ADD COLUMN used_config_id uuid;
