-- Which installation wrote a mark in a destination. It travels with the database, so `sluice restored` makes a new one:
-- a database that was restored from a backup is not the one that wrote the newest marks.
CREATE TABLE installation (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  since timestamptz NOT NULL DEFAULT now()
);
INSERT INTO installation DEFAULT VALUES;
