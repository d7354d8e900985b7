-- Records that the destination refused, as parts in the blob store like those of an output. Null: there are none, or they
-- have expired; the count stays.
ALTER TABLE runs ADD COLUMN quarantine_parts jsonb;
ALTER TABLE runs ADD COLUMN records_quarantined bigint NOT NULL DEFAULT 0;

-- What a list of parts takes in the blob store.
CREATE FUNCTION stored_bytes_of(parts jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(sum(coalesce((part->>'stored_bytes')::bigint, (part->>'size')::bigint)), 0)::bigint
    FROM jsonb_array_elements(coalesce(parts, '[]')) AS part
$$;

-- A quarantine counts towards the quota of its organization like an output: once its run has ended.
CREATE FUNCTION note_stored_quarantine() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  before bigint := CASE WHEN OLD.finished_at IS NULL THEN 0 ELSE stored_bytes_of(OLD.quarantine_parts) END;
  after bigint := CASE WHEN NEW.finished_at IS NULL THEN 0 ELSE stored_bytes_of(NEW.quarantine_parts) END;
  change bigint := after - before;
BEGIN
  IF change = 0 THEN
    RETURN NULL;
  END IF;
  UPDATE organization_storage SET stored_bytes = stored_bytes + change WHERE organization_id = NEW.organization_id;
  IF NOT FOUND AND change > 0 THEN
    INSERT INTO organization_storage AS s (organization_id, stored_bytes) VALUES (NEW.organization_id, change)
    ON CONFLICT (organization_id) DO UPDATE SET stored_bytes = s.stored_bytes + excluded.stored_bytes;
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER runs_note_quarantine AFTER UPDATE OF finished_at, quarantine_parts ON runs FOR EACH ROW
  WHEN (OLD.quarantine_parts IS NOT NULL OR NEW.quarantine_parts IS NOT NULL) EXECUTE FUNCTION note_stored_quarantine();

CREATE OR REPLACE FUNCTION note_removed_outputs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE organization_storage s SET stored_bytes = s.stored_bytes - g.bytes
    FROM (SELECT organization_id,
                 sum(CASE WHEN output_file_size IS NULL THEN 0 ELSE coalesce(output_stored_bytes, output_file_size) END
                   + CASE WHEN finished_at IS NULL OR quarantine_parts IS NULL THEN 0 ELSE stored_bytes_of(quarantine_parts) END) AS bytes
            FROM gone WHERE output_file_size IS NOT NULL OR quarantine_parts IS NOT NULL GROUP BY organization_id) g
   WHERE s.organization_id = g.organization_id;
  RETURN NULL;
END $$;
