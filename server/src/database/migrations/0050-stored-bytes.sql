-- What an output takes in the blob store. It is less than output_file_size, because parts are stored compressed. Rows from
-- before have none: their outputs are stored plain.
ALTER TABLE runs ADD COLUMN output_stored_bytes bigint;

-- The quota of an organization counts what is stored.
CREATE OR REPLACE FUNCTION note_stored_output() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  -- An output is there if it has a size.
  before bigint := CASE WHEN OLD.output_file_size IS NULL THEN 0 ELSE coalesce(OLD.output_stored_bytes, OLD.output_file_size) END;
  after bigint := CASE WHEN NEW.output_file_size IS NULL THEN 0 ELSE coalesce(NEW.output_stored_bytes, NEW.output_file_size) END;
  change bigint := after - before;
BEGIN
  UPDATE organization_storage SET stored_bytes = stored_bytes + change WHERE organization_id = NEW.organization_id;
  IF NOT FOUND AND change > 0 THEN
    INSERT INTO organization_storage AS s (organization_id, stored_bytes) VALUES (NEW.organization_id, change)
    ON CONFLICT (organization_id) DO UPDATE SET stored_bytes = s.stored_bytes + excluded.stored_bytes;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION note_removed_outputs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE organization_storage s SET stored_bytes = s.stored_bytes - g.bytes
    FROM (SELECT organization_id, sum(coalesce(output_stored_bytes, output_file_size)) AS bytes FROM gone WHERE output_file_size IS NOT NULL GROUP BY organization_id) g
   WHERE s.organization_id = g.organization_id;
  RETURN NULL;
END $$;
