-- The key that a key was made with: it ends with that one. `scopes` holds the limits of a key, {} for none.
ALTER TABLE api_keys ADD COLUMN made_with uuid REFERENCES api_keys (id) ON DELETE CASCADE;
CREATE INDEX api_keys_made_with_idx ON api_keys (made_with) WHERE made_with IS NOT NULL;
