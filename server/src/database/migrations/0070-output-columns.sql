-- The columns of an output that is tab-separated text, so that a source can read it. Null for every other kind, which says
-- what its columns are, and for outputs from before.
ALTER TABLE runs ADD COLUMN output_columns jsonb;
