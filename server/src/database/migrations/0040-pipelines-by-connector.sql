-- The pipelines of one connector, newest first: who uses it is asked before it is deleted, and listed with a page at a time.
DROP INDEX pipelines_saved_source_idx;
DROP INDEX pipelines_saved_destination_idx;
DROP INDEX pipelines_source_idx;
CREATE INDEX pipelines_saved_source_idx ON pipelines (saved_source_id, created_at DESC, id) WHERE saved_source_id IS NOT NULL;
CREATE INDEX pipelines_saved_destination_idx ON pipelines (saved_destination_id, created_at DESC, id) WHERE saved_destination_id IS NOT NULL;
CREATE INDEX pipelines_source_idx ON pipelines (organization_id, source_name, created_at DESC, id);
-- The saved sources of one connector.
CREATE INDEX saved_connectors_connector_idx ON saved_connectors (organization_id, connector_name, created_at DESC, id) WHERE type = 'source';
