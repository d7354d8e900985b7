-- Lists by two filters are counted in an index: their rows lie on as many pages of the table.
DROP INDEX pipelines_source_idx;
CREATE INDEX pipelines_source_idx ON pipelines (organization_id, source_name, created_at DESC, id) INCLUDE (destination_name);
DROP INDEX pipelines_manual_idx;
CREATE INDEX pipelines_manual_idx ON pipelines (organization_id, created_at DESC, id) INCLUDE (enabled) WHERE schedule IS NULL;
DROP INDEX pipelines_scheduled_idx;
CREATE INDEX pipelines_scheduled_idx ON pipelines (organization_id, created_at DESC, id) INCLUDE (enabled) WHERE schedule IS NOT NULL;
