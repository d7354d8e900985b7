-- Which table the output is the file of, where the next run goes on from it: the fingerprint of its destination. Null for
-- every other output.
ALTER TABLE runs ADD COLUMN output_target text;
