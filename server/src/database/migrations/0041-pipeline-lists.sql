-- What every run changes is kept apart from the pipeline: lists are filtered and sorted by it, and in the pipeline's own row
-- each change of an indexed column would write all of its indexes.
CREATE TABLE pipeline_activity (
  pipeline_id uuid PRIMARY KEY REFERENCES pipelines (id) ON DELETE CASCADE,
  organization_id uuid NOT NULL,
  -- Of the pipeline; it never changes.
  created_at timestamptz NOT NULL,
  last_run_seq bigint,
  last_run_status text,
  last_run_at timestamptz
);
INSERT INTO pipeline_activity SELECT id, organization_id, created_at, last_run_seq, last_run_status, last_run_at FROM pipelines;
CREATE INDEX pipeline_activity_status_idx ON pipeline_activity (organization_id, last_run_status, created_at DESC, pipeline_id);
CREATE INDEX pipeline_activity_time_idx ON pipeline_activity (organization_id, last_run_at DESC NULLS LAST, pipeline_id);

CREATE FUNCTION begin_pipeline_activity() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO pipeline_activity (pipeline_id, organization_id, created_at) VALUES (NEW.id, NEW.organization_id, NEW.created_at);
  RETURN NULL;
END $$;
CREATE TRIGGER pipelines_begin_activity AFTER INSERT ON pipelines FOR EACH ROW EXECUTE FUNCTION begin_pipeline_activity();

-- The pipeline is locked first, as everybody does who makes a run of it ready: two locks are always taken in this order.
CREATE OR REPLACE FUNCTION note_last_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM pipelines p WHERE p.id = NEW.pipeline_id FOR NO KEY UPDATE;
  UPDATE pipeline_activity
     SET last_run_seq = NEW.seq, last_run_status = NEW.status, last_run_at = coalesce(NEW.started_at, NEW.created_at)
   WHERE pipeline_id = NEW.pipeline_id AND (last_run_seq IS NULL OR last_run_seq <= NEW.seq);
  RETURN NULL;
END $$;
ALTER TABLE pipelines DROP COLUMN last_run_seq, DROP COLUMN last_run_status, DROP COLUMN last_run_at;

-- A search reads the names of an organization from the index alone, in the order of the list.
DROP INDEX pipelines_created_idx;
CREATE INDEX pipelines_created_idx ON pipelines (organization_id, created_at DESC, id) INCLUDE (name);
CREATE INDEX pipelines_name_idx ON pipelines (organization_id, lower(name), id) INCLUDE (name);
CREATE INDEX pipelines_next_run_idx ON pipelines (organization_id, next_run_at, id);
CREATE INDEX pipelines_destination_idx ON pipelines (organization_id, destination_name, created_at DESC, id);
CREATE INDEX pipelines_enabled_idx ON pipelines (organization_id, enabled, created_at DESC, id);
CREATE INDEX pipelines_scheduled_idx ON pipelines (organization_id, created_at DESC, id) WHERE schedule IS NOT NULL;
CREATE INDEX pipelines_manual_idx ON pipelines (organization_id, created_at DESC, id) WHERE schedule IS NULL;
