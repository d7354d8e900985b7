-- When pipelines are due, in a narrow table: a tick changed an indexed column of pipelines, and each such change wrote all
-- twelve indexes of that table, each at another place. Now the row of the pipeline is changed on its page.
-- pipelines.next_run_at stays what is true: a scheduler finds due pipelines here, and decides by the row that it locks.
CREATE TABLE pipeline_due (
  pipeline_id uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  -- Null unless the pipeline is enabled and has a schedule.
  next_run_at timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- As many pipelines as one statement touches, by one statement: a tick moves up to five hundred.
CREATE FUNCTION begin_pipeline_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO pipeline_due (pipeline_id, organization_id, next_run_at)
  SELECT t.id, t.organization_id, CASE WHEN t.enabled THEN t.next_run_at END FROM touched t;
  RETURN NULL;
END $$;
-- Whatever the number of rows was when the plan was made, they are looked up by key.
CREATE FUNCTION note_pipeline_due() RETURNS trigger LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off AS $$
BEGIN
  UPDATE pipeline_due d SET next_run_at = CASE WHEN t.enabled THEN t.next_run_at END
    FROM touched t WHERE d.pipeline_id = t.id AND d.next_run_at IS DISTINCT FROM CASE WHEN t.enabled THEN t.next_run_at END;
  RETURN NULL;
END $$;

-- The indexes of pipelines go with the next migration: it needs a stronger lock, for which nothing is worth being repeated.
-- From here on nobody else changes pipelines until this is committed, so what is copied below is complete.
CREATE TRIGGER pipelines_begin_due AFTER INSERT ON pipelines REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION begin_pipeline_due();
CREATE TRIGGER pipelines_note_due AFTER UPDATE ON pipelines REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION note_pipeline_due();
INSERT INTO pipeline_due (pipeline_id, organization_id, next_run_at)
SELECT p.id, p.organization_id, CASE WHEN p.enabled THEN p.next_run_at END FROM pipelines p;

CREATE INDEX pipeline_due_time_idx ON pipeline_due (next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX pipeline_due_organization_idx ON pipeline_due (organization_id, next_run_at, pipeline_id);
-- Last: it is checked by one join then, without a lock on the row of each pipeline.
ALTER TABLE pipeline_due ADD FOREIGN KEY (pipeline_id) REFERENCES pipelines ON DELETE CASCADE;
ANALYZE pipeline_due;
