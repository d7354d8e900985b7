-- Rows that change often: pages with room, so that a change stays on its page, and vacuum by what has changed rather than by a
-- share of the whole table, which would come once in a million runs. `runs` has its fillfactor since 0010.
ALTER TABLE runs SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);
ALTER TABLE pipelines SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
ALTER TABLE pipeline_activity SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
ALTER TABLE pipeline_state SET (fillfactor = 80);
ALTER TABLE listening_workers SET (fillfactor = 20);
ALTER TABLE watching_processes SET (fillfactor = 20);
-- A delivery is claimed and ended within seconds; a log is appended to and packed away.
ALTER TABLE webhook_deliveries SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
ALTER TABLE run_log_chunks SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
ALTER TABLE organization_storage SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
