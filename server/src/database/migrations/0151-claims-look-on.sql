-- A claim that found only organizations without room used to give up, so a run of one with room could wait for as many polls
-- as it took to reach it. Now it looks on. It begins with fewer organizations than before, which is what most claims need. And
-- a statement that claims as many runs as become ready by it wakes nobody.

DROP FUNCTION claim_runs(text, integer, integer, double precision, uuid, text, boolean);
-- A worker with free slots takes ready runs: at most `free`, and never more of an organization than `per_organization`
-- at a time, whatever their class. Only runs of `of_class` are taken. Returns their ids and attempts, whether others were in
-- the way (`busy`: ask again soon), and where the next claim of this worker begins.
--
-- 1. Organizations with waiting runs are found by a loose index scan: one descent per organization, however many runs it
--    has waiting. Some are looked at, from `after` on and round the end, so a claim costs the same with a hundred
--    thousand of them, and each comes up once a round. Of these, those with the fewest runs going come first, then the
--    oldest run. If all of them have as many as they may, a claim that comes with the end of runs takes the next ones of the
--    organizations that have just got room (`freed`), and any other looks on: one organization with room must not
--    wait behind thousands without.
-- 2. Their advisory locks make the limit exact: who holds one is alone in claiming for that organization and counts anew,
--    with a snapshot of its own. No more are locked than there are slots: each of them has a run for one. Locks of others are
--    skipped; only where all are taken, and the claim is `patient`, is one waited for.
-- 3. Run and pipeline are locked, and skipped where somebody has them: no claim ever waits for a row.
--
-- Whatever the statistics say, the plan is the same: only runs_ready_idx has the order that is asked for, and where rows
-- are looked up by key there is no join whose order could be turned round.
CREATE FUNCTION claim_runs(claimer text, free integer, per_organization integer, lease_seconds double precision, after uuid, of_class text DEFAULT '', patient boolean DEFAULT true, freed uuid[] DEFAULT '{}',
                           OUT run_ids uuid[], OUT attempts integer[], OUT busy boolean, OUT next_after uuid) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  moment timestamptz := clock_timestamp();
  -- Enough to find one run for each slot, even if others claim at the same time.
  looks integer := 4 + 3 * free;
  -- Where more than this have no room, thousands of runs are going, and somebody ends one every few milliseconds.
  most_looks CONSTANT integer := 512;
  begin_after uuid := after;
  heads uuid[];
  organization uuid;
  locked uuid[] := '{}';
  candidates uuid[];
  candidate uuid;
  pipeline uuid;
  waits boolean;
  held uuid[] := '{}';
BEGIN
  busy := false;
  LOOP
    WITH RECURSIVE onward AS (
      (SELECT r.organization_id, r.available_at, r.seq FROM runs r WHERE r.pod_class = of_class AND r.status = 'pending' AND r.ready AND r.organization_id > begin_after
        ORDER BY r.organization_id, r.available_at, r.seq LIMIT 1)
      UNION ALL
      SELECT n.* FROM onward o CROSS JOIN LATERAL (
        SELECT r.organization_id, r.available_at, r.seq FROM runs r WHERE r.pod_class = of_class AND r.status = 'pending' AND r.ready AND r.organization_id > o.organization_id
         ORDER BY r.organization_id, r.available_at, r.seq LIMIT 1) n
    ), around AS (
      (SELECT r.organization_id, r.available_at, r.seq FROM runs r WHERE r.pod_class = of_class AND r.status = 'pending' AND r.ready AND r.organization_id <= begin_after
        ORDER BY r.organization_id, r.available_at, r.seq LIMIT 1)
      UNION ALL
      SELECT n.* FROM around o CROSS JOIN LATERAL (
        SELECT r.organization_id, r.available_at, r.seq FROM runs r
         WHERE r.pod_class = of_class AND r.status = 'pending' AND r.ready AND r.organization_id > o.organization_id AND r.organization_id <= begin_after
         ORDER BY r.organization_id, r.available_at, r.seq LIMIT 1) n
    ), seen AS (
      SELECT w.*, row_number() OVER () AS place FROM (SELECT * FROM onward UNION ALL SELECT * FROM around) w LIMIT looks
    ), waiting AS (
      SELECT s.organization_id, s.seq, a.running FROM seen s
       CROSS JOIN LATERAL (SELECT count(*) AS running FROM runs r WHERE r.organization_id = s.organization_id AND r.status = 'running') a
       WHERE s.available_at <= moment AND a.running < per_organization
    )
    SELECT (SELECT array_agg(h.organization_id ORDER BY h.running, h.seq)
              FROM (SELECT * FROM waiting w ORDER BY w.running, w.seq LIMIT 2 * free + 8) h),
           (SELECT s.organization_id FROM seen s WHERE s.place = looks)
      INTO heads, next_after;
    EXIT WHEN heads IS NOT NULL OR next_after IS NULL OR looks >= most_looks OR free <= 0;
    IF NOT patient THEN
      SELECT array_agg(f.organization_id) INTO heads FROM (SELECT DISTINCT u.organization_id FROM unnest(freed) AS u (organization_id)) f
       WHERE EXISTS (SELECT 1 FROM runs r WHERE r.organization_id = f.organization_id AND r.pod_class = of_class AND r.status = 'pending' AND r.ready AND r.available_at <= moment)
         AND (SELECT count(*) FROM runs r WHERE r.organization_id = f.organization_id AND r.status = 'running') < per_organization;
      busy := heads IS NULL;
      EXIT;
    END IF;
    begin_after := next_after;
    looks := most_looks;
  END LOOP;
  next_after := coalesce(next_after, after);
  run_ids := '{}';
  attempts := '{}';
  IF heads IS NULL OR free <= 0 THEN
    RETURN;
  END IF;

  FOREACH organization IN ARRAY heads LOOP
    IF pg_try_advisory_xact_lock(hashtextextended('sluice claim ' || organization, 0)) THEN
      locked := locked || organization;
    END IF;
    EXIT WHEN cardinality(locked) >= free;
  END LOOP;
  IF locked = '{}' THEN
    busy := true;
    IF NOT patient THEN
      RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('sluice claim ' || heads[1], 0));
    locked := heads[1:1];
  END IF;

  SELECT array_agg(c.id ORDER BY c.turn, c.seq) INTO candidates FROM (
    SELECT q.id, a.running + row_number() OVER (PARTITION BY o.organization_id ORDER BY q.available_at, q.seq) AS turn, q.seq
      FROM unnest(locked) AS o (organization_id)
     CROSS JOIN LATERAL (SELECT count(*) AS running FROM runs r WHERE r.organization_id = o.organization_id AND r.status = 'running') a
     CROSS JOIN LATERAL (
       SELECT r.id, r.available_at, r.seq FROM runs r
        WHERE r.organization_id = o.organization_id AND r.pod_class = of_class AND r.status = 'pending' AND r.ready AND r.available_at <= moment
        ORDER BY r.organization_id, r.available_at, r.seq LIMIT greatest(0, per_organization - a.running)) q) c;
  FOREACH candidate IN ARRAY coalesce(candidates, '{}') LOOP
    EXIT WHEN cardinality(held) >= free;
    -- By its key alone: with a condition on the status a statistic could send this through all that waits.
    SELECT r.pipeline_id, r.status = 'pending' AND r.ready INTO pipeline, waits FROM runs r WHERE r.id = candidate FOR NO KEY UPDATE SKIP LOCKED;
    CONTINUE WHEN waits IS NOT TRUE;
    PERFORM 1 FROM pipelines p WHERE p.id = pipeline FOR NO KEY UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    held := held || candidate;
  END LOOP;

  WITH taken AS (
    UPDATE runs r SET status = 'running', attempt = r.attempt + 1, worker = claimer, started_at = coalesce(r.started_at, moment),
                      lease_until = clock_timestamp() + make_interval(secs => lease_seconds)
     WHERE r.id = ANY (held) RETURNING r.id, r.attempt, r.seq
  )
  SELECT coalesce(array_agg(t.id ORDER BY t.seq), '{}'), coalesce(array_agg(t.attempt ORDER BY t.seq), '{}') INTO run_ids, attempts FROM taken t;
  busy := run_ids = '{}';
END $$;

-- Ends runs with success, each if its attempt still holds it, and claims runs for the slots that this frees. `ended` has what
-- was written, `skipped` the runs that somebody else had locked.
--
-- Several at a time never wait for a row of a run or a pipeline, because whoever holds it may be waiting for another one of
-- these; a single one is `patient`. The storage of organizations is the one thing that is waited for, always in the same
-- order.
CREATE OR REPLACE FUNCTION finish_runs(endings jsonb, patient boolean, claimer text, free integer, per_organization integer, lease_seconds double precision, after uuid,
                            OUT ended jsonb, OUT skipped uuid[], OUT run_ids uuid[], OUT attempts integer[], OUT busy boolean, OUT next_after uuid) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  e record;
  done record;
  readied uuid[] := '{}';
  freed uuid[] := '{}';
  more integer;
  free_row boolean;
BEGIN
  ended := '[]';
  skipped := '{}';
  FOR e IN
    SELECT u.* FROM jsonb_to_recordset(endings) AS u (
      id uuid, organization_id uuid, pipeline_id uuid, seq bigint, attempt integer, worker text, records_read bigint, records_written bigint, bytes_written bigint,
      output_file text, output_file_size bigint, output_parts jsonb, output_stored_bytes bigint, output_type text, output_columns jsonb, output_target text,
      stage_left boolean, quarantine_parts jsonb, records_quarantined bigint, line_count integer, lines text, cursor jsonb, fingerprint jsonb)
     ORDER BY u.organization_id, u.pipeline_id
  LOOP
    IF NOT patient THEN
      PERFORM 1 FROM runs r WHERE r.id = e.id FOR NO KEY UPDATE SKIP LOCKED;
      free_row := FOUND;
      IF free_row THEN
        PERFORM 1 FROM pipelines p WHERE p.id = e.pipeline_id FOR NO KEY UPDATE SKIP LOCKED;
        free_row := FOUND;
      END IF;
      IF NOT free_row THEN
        skipped := skipped || e.id;
        CONTINUE;
      END IF;
    END IF;
    UPDATE runs r SET status = 'success', finished_at = now(), error = NULL, lease_until = NULL, config_box = NULL, cursor = NULL, parts = '[]',
           records_read = e.records_read, records_written = e.records_written, bytes_written = e.bytes_written,
           output_file = e.output_file, output_file_size = e.output_file_size, output_parts = e.output_parts, output_stored_bytes = e.output_stored_bytes,
           output_type = e.output_type, output_columns = e.output_columns, output_target = e.output_target,
           stage_left = e.stage_left, quarantine_parts = e.quarantine_parts, records_quarantined = e.records_quarantined
     WHERE r.id = e.id AND r.attempt = e.attempt AND r.worker = e.worker
       -- No partial index fits this: reading all that is running would seem cheaper than the key.
       AND r.status || '' = 'running'
    RETURNING r.id, r.organization_id, r.pipeline_id, r.seq, r.status, r.triggered_by, r.error, r.started_at, r.finished_at, r.records_written INTO done;
    CONTINUE WHEN NOT FOUND;
    ended := ended || to_jsonb(done);
    freed := freed || done.organization_id;
    -- A newer edit of the state (a higher seq) wins: it was made for the runs after this one.
    IF e.fingerprint IS NOT NULL THEN
      INSERT INTO pipeline_state AS s (pipeline_id, seq, cursor, fingerprint) VALUES (e.pipeline_id, e.seq, e.cursor, e.fingerprint)
      ON CONFLICT (pipeline_id) DO UPDATE SET seq = excluded.seq, cursor = excluded.cursor, fingerprint = excluded.fingerprint, updated_at = now() WHERE s.seq <= excluded.seq;
    END IF;
    IF e.line_count > 0 THEN
      PERFORM append_run_log(e.id, NULL, e.line_count, e.lines);
    END IF;
    readied := array_remove(readied || ready_next_run(e.pipeline_id), NULL);
  END LOOP;
  IF free > cardinality(skipped) AND ended <> '[]' THEN
    SELECT c.* INTO run_ids, attempts, busy, next_after FROM claim_runs(claimer, free - cardinality(skipped), per_organization, lease_seconds, after, '', false, freed) c;
  END IF;
  -- Who claims another run than the one that has become ready leaves that one to the worker that was woken for the other.
  more := cardinality(readied) - coalesce(cardinality(run_ids), 0);
  IF more > 0 THEN
    PERFORM wake_workers(more);
  END IF;
  IF EXISTS (SELECT 1 FROM watching_processes w WHERE w.until > now()) THEN
    PERFORM pg_notify('sluice', 'state ' || (d->>'id')) FROM jsonb_array_elements(ended) AS d;
  END IF;
END $$;
