-- Runs that want a pod of their own name a class of machine; '' is what workers that stay share. A worker takes runs of one
-- class only, so the class leads the index that serves the claim.
ALTER TABLE runs ADD COLUMN pod_class text NOT NULL DEFAULT '';
DROP INDEX runs_ready_idx;
CREATE INDEX runs_ready_idx ON runs (pod_class, organization_id, available_at, seq) WHERE status = 'pending' AND ready;

-- As in 0010, for one class. An older worker that gives no class takes only what is shared.
DROP FUNCTION claim_runs(text, integer, integer, double precision, uuid);
-- A worker with free slots takes ready runs: at most `free`, and never more of an organization than `per_organization`
-- at a time, whatever their class. Only runs of `of_class` are taken. Returns their ids and attempts, whether others were in
-- the way (`busy`: ask again soon), and where the next claim of this worker begins.
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
CREATE FUNCTION claim_runs(claimer text, free integer, per_organization integer, lease_seconds double precision, after uuid, of_class text DEFAULT '',
                           OUT run_ids uuid[], OUT attempts integer[], OUT busy boolean, OUT next_after uuid) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
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
    (SELECT r.organization_id, r.available_at, r.seq FROM runs r WHERE r.pod_class = of_class AND r.status = 'pending' AND r.ready AND r.organization_id > after
      ORDER BY r.organization_id, r.available_at, r.seq LIMIT 1)
    UNION ALL
    SELECT n.* FROM onward o CROSS JOIN LATERAL (
      SELECT r.organization_id, r.available_at, r.seq FROM runs r WHERE r.pod_class = of_class AND r.status = 'pending' AND r.ready AND r.organization_id > o.organization_id
       ORDER BY r.organization_id, r.available_at, r.seq LIMIT 1) n
  ), around AS (
    (SELECT r.organization_id, r.available_at, r.seq FROM runs r WHERE r.pod_class = of_class AND r.status = 'pending' AND r.ready AND r.organization_id <= after
      ORDER BY r.organization_id, r.available_at, r.seq LIMIT 1)
    UNION ALL
    SELECT n.* FROM around o CROSS JOIN LATERAL (
      SELECT r.organization_id, r.available_at, r.seq FROM runs r
       WHERE r.pod_class = of_class AND r.status = 'pending' AND r.ready AND r.organization_id > o.organization_id AND r.organization_id <= after
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

-- What an autoscaler asks: the runs of a class that are running, and those that could begin now. What an organization has
-- waiting beyond its share (`per_organization`, null: no limit) could not begin, and would only start workers that find
-- nothing. The owner's rights, so that a role which may call this can read nothing else; at most 10,000 waiting runs are
-- looked at. For '' read: shared.
DO $make$
BEGIN
  EXECUTE format($sql$
    CREATE FUNCTION queue_depth(class text, per_organization integer DEFAULT NULL) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = %I, pg_temp AS $body$
      WITH asked AS (SELECT CASE class WHEN 'shared' THEN '' ELSE class END AS pod_class),
      running AS (SELECT r.organization_id, r.pod_class FROM runs r WHERE r.status = 'running'),
      waiting AS (
        SELECT w.organization_id, count(*) AS runs FROM (
          SELECT r.organization_id FROM runs r
           WHERE r.pod_class = (SELECT a.pod_class FROM asked a) AND r.status = 'pending' AND r.ready AND r.available_at <= now() LIMIT 10000) w
         GROUP BY w.organization_id)
      SELECT (SELECT count(*) FROM running g JOIN asked a ON a.pod_class = g.pod_class)
           + coalesce((SELECT sum(greatest(0, least(w.runs, per_organization - (SELECT count(*) FROM running g WHERE g.organization_id = w.organization_id)))) FROM waiting w), 0)::bigint
    $body$ $sql$, current_schema());
END $make$;
REVOKE ALL ON FUNCTION queue_depth(text, integer) FROM PUBLIC;
