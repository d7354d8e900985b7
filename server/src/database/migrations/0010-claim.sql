-- Claiming and ending a run become one statement each, so that no client ever holds a lock over a round trip: a worker
-- that is frozen or cut off in the middle of either holds up nobody.

-- Serves the claim alone. What waits for its back-off lies behind what may begin now, so it is never read over.
DROP INDEX runs_ready_idx;
CREATE INDEX runs_ready_idx ON runs (organization_id, available_at, seq) WHERE status = 'pending' AND ready;
-- When the next back-off ends.
CREATE INDEX runs_retry_idx ON runs (available_at) WHERE status = 'pending' AND ready AND failed_attempts > 0;
-- Without lease_until: with it every renewal wrote a new entry into each index of the table.
DROP INDEX runs_running_idx;
CREATE INDEX runs_running_idx ON runs (organization_id) WHERE status = 'running';
-- Renewals and progress stay on their page.
ALTER TABLE runs SET (fillfactor = 80);

-- Adds a chunk behind what is there and returns its number, 0 where the attempt no longer has the run. A line from
-- outside the attempt (a cancel, a recovery) may take the same number at the same moment: then this one goes behind it.
CREATE FUNCTION append_run_log(run uuid, of_attempt integer, count_of_lines integer, text_of_lines text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  added integer;
BEGIN
  FOR tries IN 1..5 LOOP
    INSERT INTO run_log_chunks AS k (run_id, number, first_line, line_count, lines)
    SELECT r.id, coalesce(last.number, 0) + 1, coalesce(last.first_line + last.line_count, 1), count_of_lines, text_of_lines
      FROM runs r
      LEFT JOIN LATERAL (SELECT c.number, c.first_line, c.line_count FROM run_log_chunks c WHERE c.run_id = r.id ORDER BY c.number DESC LIMIT 1) last ON true
     WHERE r.id = run AND r.attempt = coalesce(of_attempt, r.attempt)
    ON CONFLICT DO NOTHING RETURNING k.number INTO added;
    EXIT WHEN added IS NOT NULL;
  END LOOP;
  RETURN coalesce(added, 0);
END $$;

-- After a run of the pipeline has ended: makes its next run ready and returns its id. Statements of their own, so that each
-- sees what was committed while it waited for the pipeline's lock. A waiting run that somebody has locked (a cancel, most
-- likely) is passed over: waiting for it here could deadlock. ready_forgotten_runs finds what is left behind by that.
CREATE FUNCTION ready_next_run(pipeline uuid) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  readied uuid;
BEGIN
  PERFORM 1 FROM pipelines p WHERE p.id = pipeline FOR NO KEY UPDATE;
  UPDATE runs SET ready = true WHERE id = (
    SELECT r.id FROM runs r WHERE r.pipeline_id = pipeline AND r.status = 'pending' AND NOT r.ready
       AND NOT EXISTS (SELECT 1 FROM runs a WHERE a.pipeline_id = pipeline AND (a.status = 'running' OR a.status = 'pending' AND a.ready))
     ORDER BY r.seq LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING id INTO readied;
  RETURN readied;
END $$;

-- A worker with free slots takes ready runs: at most `free`, and never more of an organization than `per_organization`
-- at a time. Returns their ids and attempts, whether others were in the way (`busy`: ask again soon), and where the next
-- claim of this worker begins.
--
-- 1. Organizations with waiting runs are found by a loose index scan: one descent per organization, however many runs it
--    has waiting. At most 250 are looked at, from `after` on and round the end, so a claim costs the same with a hundred
--    thousand of them. Of these, those with the fewest runs going come first, then the oldest run.
-- 2. Their advisory locks make the limit exact: who holds one is alone in claiming for that organization and counts anew,
--    with a snapshot of its own. Locks of others are skipped; only where all are taken is one waited for.
-- 3. Run and pipeline are locked, and skipped where somebody has them: no claim ever waits for a row.
--
-- Whatever the statistics say, the plan is the same: only runs_ready_idx has the order that is asked for, and where rows
-- are looked up by key there is no join whose order could be turned round.
CREATE FUNCTION claim_runs(claimer text, free integer, per_organization integer, lease_seconds double precision, after uuid,
                           OUT run_ids uuid[], OUT attempts integer[], OUT busy boolean, OUT next_after uuid) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET jit = off AS $$
DECLARE
  moment timestamptz := clock_timestamp();
  heads uuid[];
  locked uuid[];
  candidates uuid[];
  candidate uuid;
  pipeline uuid;
  waits boolean;
  held uuid[] := '{}';
BEGIN
  WITH RECURSIVE onward AS (
    (SELECT r.organization_id, r.available_at, r.seq FROM runs r WHERE r.status = 'pending' AND r.ready AND r.organization_id > after
      ORDER BY r.organization_id, r.available_at, r.seq LIMIT 1)
    UNION ALL
    SELECT n.* FROM onward o CROSS JOIN LATERAL (
      SELECT r.organization_id, r.available_at, r.seq FROM runs r WHERE r.status = 'pending' AND r.ready AND r.organization_id > o.organization_id
       ORDER BY r.organization_id, r.available_at, r.seq LIMIT 1) n
  ), around AS (
    (SELECT r.organization_id, r.available_at, r.seq FROM runs r WHERE r.status = 'pending' AND r.ready AND r.organization_id <= after
      ORDER BY r.organization_id, r.available_at, r.seq LIMIT 1)
    UNION ALL
    SELECT n.* FROM around o CROSS JOIN LATERAL (
      SELECT r.organization_id, r.available_at, r.seq FROM runs r
       WHERE r.status = 'pending' AND r.ready AND r.organization_id > o.organization_id AND r.organization_id <= after
       ORDER BY r.organization_id, r.available_at, r.seq LIMIT 1) n
  ), seen AS (
    SELECT w.*, row_number() OVER () AS place FROM (SELECT * FROM onward UNION ALL SELECT * FROM around) w LIMIT 250
  ), waiting AS (
    SELECT s.organization_id, s.seq, a.running FROM seen s
     CROSS JOIN LATERAL (SELECT count(*) AS running FROM runs r WHERE r.organization_id = s.organization_id AND r.status = 'running') a
     WHERE s.available_at <= moment AND a.running < per_organization
  )
  SELECT (SELECT array_agg(h.organization_id ORDER BY h.running, h.seq)
            FROM (SELECT * FROM waiting w ORDER BY w.running, w.seq LIMIT 2 * free + 8) h),
         (SELECT s.organization_id FROM seen s WHERE s.place = 250)
    INTO heads, next_after;
  next_after := coalesce(next_after, after);
  run_ids := '{}';
  attempts := '{}';
  busy := false;
  IF heads IS NULL OR free <= 0 THEN
    RETURN;
  END IF;

  SELECT array_agg(h.organization_id ORDER BY h.place) INTO locked
    FROM unnest(heads) WITH ORDINALITY AS h (organization_id, place)
   WHERE pg_try_advisory_xact_lock(hashtextextended('sluice claim ' || h.organization_id, 0));
  IF locked IS NULL THEN
    PERFORM pg_advisory_xact_lock(hashtextextended('sluice claim ' || heads[1], 0));
    locked := heads[1:1];
  END IF;

  SELECT array_agg(c.id ORDER BY c.turn, c.seq) INTO candidates FROM (
    SELECT q.id, a.running + row_number() OVER (PARTITION BY o.organization_id ORDER BY q.available_at, q.seq) AS turn, q.seq
      FROM unnest(locked) AS o (organization_id)
     CROSS JOIN LATERAL (SELECT count(*) AS running FROM runs r WHERE r.organization_id = o.organization_id AND r.status = 'running') a
     CROSS JOIN LATERAL (
       SELECT r.id, r.available_at, r.seq FROM runs r
        WHERE r.organization_id = o.organization_id AND r.status = 'pending' AND r.ready AND r.available_at <= moment
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

-- What every end of a run has in common, whoever brings it about: its last lines, the next run of its pipeline, and word
-- to those who follow it. Where `free` is above 0 a slot of this worker has become free, and it claims with it at once.
CREATE FUNCTION end_run(run uuid, pipeline uuid, count_of_lines integer, text_of_lines text,
                        claimer text, free integer, per_organization integer, lease_seconds double precision, after uuid,
                        OUT run_ids uuid[], OUT attempts integer[], OUT busy boolean, OUT next_after uuid) LANGUAGE plpgsql AS $$
DECLARE
  readied uuid;
BEGIN
  IF count_of_lines > 0 THEN
    PERFORM append_run_log(run, NULL, count_of_lines, text_of_lines);
  END IF;
  readied := ready_next_run(pipeline);
  IF free > 0 THEN
    SELECT c.* INTO run_ids, attempts, busy, next_after FROM claim_runs(claimer, free, per_organization, lease_seconds, after) c;
  END IF;
  PERFORM pg_notify('sluice', 'state ' || run);
  IF readied IS NOT NULL AND NOT readied = ANY (coalesce(run_ids, '{}')) THEN
    PERFORM pg_notify('sluice', 'ready');
  END IF;
END $$;

-- The oldest waiting run of each pipeline that has none that runs or may begin. Returns how many were made ready.
CREATE FUNCTION ready_forgotten_runs(at_most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  forgotten uuid;
  total integer := 0;
BEGIN
  FOR forgotten IN
    WITH RECURSIVE waiting AS (
      (SELECT r.pipeline_id FROM runs r WHERE r.status = 'pending' AND NOT r.ready ORDER BY r.pipeline_id, r.seq LIMIT 1)
      UNION ALL
      SELECT n.pipeline_id FROM waiting w CROSS JOIN LATERAL (
        SELECT r.pipeline_id FROM runs r WHERE r.status = 'pending' AND NOT r.ready AND r.pipeline_id > w.pipeline_id
         ORDER BY r.pipeline_id, r.seq LIMIT 1) n
    )
    SELECT w.pipeline_id FROM waiting w
     WHERE NOT EXISTS (SELECT 1 FROM runs a WHERE a.pipeline_id = w.pipeline_id AND (a.status = 'running' OR a.status = 'pending' AND a.ready))
     LIMIT at_most
  LOOP
    IF ready_next_run(forgotten) IS NOT NULL THEN
      total := total + 1;
    END IF;
  END LOOP;
  IF total > 0 THEN
    PERFORM pg_notify('sluice', 'ready');
  END IF;
  RETURN total;
END $$;

-- Who hears that a run is ready. PostgreSQL wakes every session that listens, whatever for: with hundreds of idle workers
-- one trigger would cost hundreds of wake-ups and as many claims. So a few workers with free slots listen, each on a seat
-- that it keeps for some seconds at a time; the others look by themselves.
CREATE TABLE listening_workers (
  seat integer PRIMARY KEY,
  worker text,
  until timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO listening_workers (seat) SELECT generate_series(1, 8);
