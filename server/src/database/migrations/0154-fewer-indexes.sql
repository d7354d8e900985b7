-- Since 0153 due times are found in pipeline_due.
DROP INDEX pipelines_due_idx;
DROP INDEX pipelines_next_run_idx;
