-- What stays quick when there are millions of runs.

-- Lists of an organization's runs are ordered by time, so that a period is read where it lies.
DROP INDEX runs_organization_idx;
CREATE INDEX runs_organization_idx ON runs (organization_id, created_at DESC, seq DESC);
DROP INDEX runs_organization_status_idx;
CREATE INDEX runs_organization_status_idx ON runs (organization_id, status, created_at DESC, seq DESC);
-- Nearly all runs are scheduled; the others are found among them.
CREATE INDEX runs_trigger_idx ON runs (organization_id, triggered_by, created_at DESC, seq DESC) WHERE triggered_by <> 'schedule';
-- Expiry goes through these page by page.
DROP INDEX runs_finished_idx;
CREATE INDEX runs_finished_idx ON runs (finished_at, id) WHERE output_file IS NOT NULL OR log_key IS NOT NULL;
DROP INDEX runs_stage_left_idx;
CREATE INDEX runs_stage_left_idx ON runs (finished_at, id) WHERE stage_left AND finished_at IS NOT NULL;

-- What the outputs of an organization take, kept up to date instead of being summed at every checkpoint.
CREATE TABLE organization_storage (
  organization_id uuid PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
  stored_bytes bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO organization_storage (organization_id, stored_bytes)
SELECT organization_id, sum(output_file_size) FROM runs WHERE output_file_size IS NOT NULL GROUP BY organization_id;

CREATE FUNCTION note_stored_output() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  change bigint := coalesce(NEW.output_file_size, 0) - coalesce(OLD.output_file_size, 0);
BEGIN
  UPDATE organization_storage SET stored_bytes = stored_bytes + change WHERE organization_id = NEW.organization_id;
  IF NOT FOUND AND change > 0 THEN
    INSERT INTO organization_storage AS s (organization_id, stored_bytes) VALUES (NEW.organization_id, change)
    ON CONFLICT (organization_id) DO UPDATE SET stored_bytes = s.stored_bytes + excluded.stored_bytes;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER runs_note_stored AFTER UPDATE OF output_file_size ON runs FOR EACH ROW
  WHEN (OLD.output_file_size IS DISTINCT FROM NEW.output_file_size) EXECUTE FUNCTION note_stored_output();

-- A pipeline may take a million runs with it: they are added up first.
CREATE FUNCTION note_removed_outputs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE organization_storage s SET stored_bytes = s.stored_bytes - g.bytes
    FROM (SELECT organization_id, sum(output_file_size) AS bytes FROM gone WHERE output_file_size IS NOT NULL GROUP BY organization_id) g
   WHERE s.organization_id = g.organization_id;
  RETURN NULL;
END $$;
CREATE TRIGGER runs_note_removed AFTER DELETE ON runs REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note_removed_outputs();

-- Its plans do not depend on the values, so they are made once for each session.
ALTER FUNCTION claim_runs(text, integer, integer, double precision, uuid) SET plan_cache_mode = force_generic_plan;
