-- Rules that tell people in a chat or by e-mail what became of pipelines. Where it is sent is encrypted: the address of a chat
-- is a credential.
CREATE TABLE alerts (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
  name text NOT NULL,
  -- Every pipeline of the organization if both are null.
  domain_id uuid,
  pipeline_id uuid,
  "on" jsonb NOT NULL,
  late_after_minutes integer,
  min_records bigint,
  max_records bigint,
  channel_box bytea NOT NULL,
  quiet_hours jsonb,
  enabled boolean NOT NULL DEFAULT true,
  -- Before this time none of its pipelines can become late.
  late_check_at timestamptz NOT NULL DEFAULT now(),
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz,
  CHECK (domain_id IS NULL OR pipeline_id IS NULL),
  FOREIGN KEY (organization_id, domain_id) REFERENCES domains (organization_id, id) ON DELETE CASCADE,
  FOREIGN KEY (organization_id, pipeline_id) REFERENCES pipelines (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX alerts_created_idx ON alerts (organization_id, created_at DESC, id);
CREATE INDEX alerts_late_idx ON alerts (late_check_at) WHERE enabled AND late_after_minutes IS NOT NULL;

-- What a rule has told about a pipeline and what has not ended yet. There is one open incident per rule, pipeline and kind,
-- so people are told once, however many runs fail.
CREATE TABLE alert_incidents (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL,
  alert_id uuid NOT NULL REFERENCES alerts ON DELETE CASCADE,
  pipeline_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('failed', 'late', 'row_count')),
  opened_at timestamptz NOT NULL DEFAULT now(),
  closed_at timestamptz,
  FOREIGN KEY (organization_id, pipeline_id) REFERENCES pipelines (organization_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX alert_incidents_open_key ON alert_incidents (pipeline_id, alert_id, kind) WHERE closed_at IS NULL;
CREATE INDEX alert_incidents_pipeline_idx ON alert_incidents (pipeline_id);
CREATE INDEX alert_incidents_alert_idx ON alert_incidents (alert_id);
CREATE INDEX alert_incidents_closed_idx ON alert_incidents (closed_at) WHERE closed_at IS NOT NULL;

-- Alerts wait in the queue of the webhooks. A sender of the version before passes over what has no webhook: it holds such a
-- row for the length of a lease and sends nothing.
ALTER TABLE webhook_deliveries
  ALTER COLUMN webhook_id DROP NOT NULL,
  ADD COLUMN alert_id uuid REFERENCES alerts ON DELETE CASCADE,
  -- Without a reference: what was sent stays listed when the incident is forgotten.
  ADD COLUMN incident_id uuid,
  ADD CHECK (num_nonnulls(webhook_id, alert_id) = 1);
CREATE INDEX webhook_deliveries_alert_idx ON webhook_deliveries (alert_id, created_at DESC, id) WHERE alert_id IS NOT NULL;

-- Mails of the current hour, one for each recipient: the operator's server would be the one that is blocked for spam.
CREATE TABLE organization_mails (
  organization_id uuid PRIMARY KEY REFERENCES organizations ON DELETE CASCADE,
  hour timestamptz NOT NULL,
  mails integer NOT NULL
) WITH (fillfactor = 50);

-- Since when a pipeline can be late: when it was enabled, scheduled or moved to another domain; null if that was at its creation.
ALTER TABLE pipelines ADD COLUMN expected_since timestamptz;

CREATE FUNCTION note_pipeline_switched() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.expected_since := now();
  IF NOT NEW.enabled THEN
    UPDATE alert_incidents SET closed_at = now() WHERE pipeline_id = NEW.id AND closed_at IS NULL;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER pipelines_note_switched BEFORE UPDATE OF enabled, schedule, domain_id ON pipelines
  FOR EACH ROW WHEN (OLD.enabled <> NEW.enabled OR OLD.schedule IS NULL AND NEW.schedule IS NOT NULL OR OLD.domain_id IS DISTINCT FROM NEW.domain_id) EXECUTE FUNCTION note_pipeline_switched();

-- Opens and closes incidents for a run that has ended, and queues what people are told of it, in the transaction that ends
-- the run. Call it with the row of the pipeline locked, as end_run leaves it: who looks for late pipelines locks it too, so
-- neither overlooks what the other has just done. Returns whether anything was queued.
CREATE FUNCTION note_run_in_alerts(run uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  ended record;
  changes jsonb;
  has_queued boolean;
BEGIN
  -- The records of a back-fill, a replay or a resend say nothing about what a pipeline usually writes.
  SELECT r.id, r.organization_id, r.pipeline_id, r.status, r.started_at, p.domain_id,
         r.status = 'success' AND r.triggered_by IN ('schedule', 'manual') AS counts, r.records_written,
         jsonb_build_object('id', p.id, 'name', p.name) AS pipeline,
         jsonb_build_object('id', r.id, 'status', r.status, 'error', r.error, 'records_written', r.records_written,
                            'finished_at', to_char(r.finished_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) AS shown
    INTO ended FROM runs r JOIN pipelines p ON p.id = r.pipeline_id WHERE r.id = run AND p.enabled;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  SELECT jsonb_agg(c->'change') INTO changes FROM pipeline_schemas s CROSS JOIN jsonb_array_elements(s.changes) AS c
   WHERE s.pipeline_id = ended.pipeline_id AND s.updated_at >= ended.started_at AND c->>'run_id' = run::text;
  -- As most runs are: one that succeeds where nothing is open.
  IF ended.status = 'success' AND changes IS NULL
     AND NOT EXISTS (SELECT 1 FROM alert_incidents i WHERE i.pipeline_id = ended.pipeline_id AND i.closed_at IS NULL)
     AND NOT EXISTS (SELECT 1 FROM alerts a WHERE a.organization_id = ended.organization_id AND a.enabled
                        AND (a.min_records > ended.records_written OR a.max_records < ended.records_written)) THEN
    RETURN false;
  END IF;
  -- Who deletes a rule waits, or is waited for: otherwise what is inserted here would refer to a rule that is gone, and the end
  -- of the run would be lost with it.
  PERFORM 1 FROM alerts a WHERE a.organization_id = ended.organization_id AND a.enabled ORDER BY a.id FOR KEY SHARE;

  WITH rules AS (
    SELECT a.id, a.name, a."on",
           ended.records_written < a.min_records IS TRUE OR ended.records_written > a.max_records IS TRUE AS is_outside
      FROM alerts a
     WHERE a.organization_id = ended.organization_id AND a.enabled
       AND CASE WHEN a.pipeline_id IS NOT NULL THEN a.pipeline_id = ended.pipeline_id ELSE a.domain_id IS NULL OR a.domain_id = ended.domain_id END
  ), opened AS (
    INSERT INTO alert_incidents (organization_id, alert_id, pipeline_id, kind)
    SELECT ended.organization_id, a.id, ended.pipeline_id, k.kind
      FROM rules a CROSS JOIN LATERAL (
        SELECT 'failed' AS kind WHERE ended.status = 'failed'
        UNION ALL SELECT 'row_count' WHERE ended.counts AND a.is_outside) k
     WHERE a."on" ? k.kind
    ON CONFLICT DO NOTHING
    RETURNING id, alert_id, kind, opened_at, closed_at
  ), closed AS (
    UPDATE alert_incidents i SET closed_at = now()
     WHERE i.pipeline_id = ended.pipeline_id AND i.closed_at IS NULL AND ended.status = 'success'
       AND (i.kind <> 'row_count' OR ended.counts AND NOT EXISTS (SELECT 1 FROM rules a WHERE a.id = i.alert_id AND a.is_outside))
    RETURNING i.id, i.alert_id, i.kind, i.opened_at, i.closed_at
  ), told AS (
    SELECT o.kind AS event, o.* FROM opened o
    UNION ALL SELECT 'recovered', c.* FROM closed c JOIN rules a ON a.id = c.alert_id WHERE a."on" ? 'recovered'
    UNION ALL SELECT 'schema_changed', NULL, a.id, NULL, NULL, NULL FROM rules a WHERE changes IS NOT NULL AND a."on" ? 'schema_changed'
  ), queued AS (
    INSERT INTO webhook_deliveries (alert_id, organization_id, event, incident_id, payload)
    SELECT t.alert_id, ended.organization_id, t.event, t.id, jsonb_build_object(
             'event', t.event, 'kind', t.kind, 'alert', jsonb_build_object('id', a.id, 'name', a.name), 'pipeline', ended.pipeline, 'run', ended.shown,
             'opened_at', to_char(t.opened_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'closed_at', to_char(t.closed_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
             'min_records', a.min_records, 'max_records', a.max_records,
             'changes', CASE WHEN t.event = 'schema_changed' THEN changes END)
      FROM told t JOIN alerts a ON a.id = t.alert_id
    RETURNING 1
  )
  SELECT EXISTS (SELECT 1 FROM queued) INTO has_queued;
  IF has_queued THEN
    PERFORM pg_notify('sluice', 'delivery');
  END IF;
  RETURN has_queued;
END $$;
