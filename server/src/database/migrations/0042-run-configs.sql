-- What a run used, without its secrets, for as long as the run is kept: what it runs with (runs.config_box) goes when it ends.
-- Runs of a pipeline that did not change share one row.
CREATE TABLE run_configs (
  pipeline_id uuid NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
  hash bytea NOT NULL,
  -- JSON, as text: a string in it may hold a NUL, which jsonb does not take.
  config text NOT NULL,
  PRIMARY KEY (pipeline_id, hash)
);
ALTER TABLE runs ADD COLUMN used_config_hash bytea;
