-- What a pipeline's state and kept columns belong to: source, stream, cursor field and destination (engine/fingerprint.ts).
-- Null in rows from before; the first run after the upgrade adopts the present one.
ALTER TABLE pipeline_state ADD COLUMN fingerprint jsonb;
ALTER TABLE pipeline_schemas ADD COLUMN fingerprint jsonb;
