-- A run's row is its job: what waits, who holds it and until when stands beside its status and can not disagree with it.

CREATE SEQUENCE run_seq;

CREATE TABLE runs (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL,
  pipeline_id uuid NOT NULL,
  -- Orders all runs; handed to destinations as the fence.
  seq bigint NOT NULL DEFAULT nextval('run_seq'),
  status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'success', 'failed', 'cancelled')),
  triggered_by text NOT NULL,
  triggered_by_user uuid,
  -- No earlier run of its pipeline is unfinished.
  ready boolean NOT NULL,
  available_at timestamptz NOT NULL DEFAULT now(),
  -- The pinned, resolved configuration; removed when the run ends.
  config_box bytea,
  source_version integer,
  attempt integer NOT NULL DEFAULT 0,
  lost_attempts integer NOT NULL DEFAULT 0,
  failed_attempts integer NOT NULL DEFAULT 0,
  worker text,
  lease_until timestamptz,
  checkpoint integer NOT NULL DEFAULT 0,
  cursor jsonb,
  parts jsonb NOT NULL DEFAULT '[]',
  records_read bigint NOT NULL DEFAULT 0,
  records_written bigint NOT NULL DEFAULT 0,
  bytes_written bigint NOT NULL DEFAULT 0,
  error text,
  output_file text,
  output_file_size bigint,
  output_parts jsonb,
  output_type text,
  log_key text,
  -- Blobs that no list names may lie under the run's prefix; the tidying removes them.
  stage_left boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz,
  finished_at timestamptz,
  FOREIGN KEY (organization_id, pipeline_id) REFERENCES pipelines (organization_id, id) ON DELETE CASCADE,
  CHECK ((finished_at IS NOT NULL) = (status IN ('success', 'failed', 'cancelled'))),
  CHECK (output_file IS NULL OR status = 'success')
);
CREATE UNIQUE INDEX runs_seq_key ON runs (seq);
CREATE INDEX runs_pipeline_idx ON runs (pipeline_id, seq DESC);
CREATE INDEX runs_pipeline_status_idx ON runs (pipeline_id, status, seq DESC);
CREATE INDEX runs_organization_idx ON runs (organization_id, seq DESC);
CREATE INDEX runs_organization_status_idx ON runs (organization_id, status, seq DESC);
CREATE INDEX runs_ready_idx ON runs (organization_id, seq) WHERE status = 'pending' AND ready;
CREATE INDEX runs_waiting_idx ON runs (pipeline_id, seq) WHERE status = 'pending' AND NOT ready;
CREATE INDEX runs_running_idx ON runs (lease_until, organization_id) WHERE status = 'running';
CREATE INDEX runs_finished_idx ON runs (finished_at) WHERE output_file IS NOT NULL OR log_key IS NOT NULL;
CREATE INDEX runs_stage_left_idx ON runs (finished_at) WHERE stage_left AND finished_at IS NOT NULL;
CREATE INDEX runs_ended_idx ON runs (finished_at) WHERE finished_at IS NOT NULL;
-- One run per pipeline that runs or may begin, whatever the code above it does.
CREATE UNIQUE INDEX runs_one_active_key ON runs (pipeline_id) WHERE status = 'running' OR (status = 'pending' AND ready);

CREATE FUNCTION note_last_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE pipelines
     SET last_run_seq = NEW.seq, last_run_status = NEW.status, last_run_at = coalesce(NEW.started_at, NEW.created_at)
   WHERE id = NEW.pipeline_id AND (last_run_seq IS NULL OR last_run_seq <= NEW.seq);
  RETURN NULL;
END $$;
CREATE TRIGGER runs_note_last AFTER INSERT OR UPDATE OF status ON runs FOR EACH ROW EXECUTE FUNCTION note_last_run();

-- Log lines while a run goes on; one compressed blob (runs.log_key) afterwards.
CREATE TABLE run_log_chunks (
  run_id uuid NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  number integer NOT NULL,
  -- Lines are counted from 1 over the whole run. A gap between two chunks is what the cap left out.
  first_line integer NOT NULL,
  line_count integer NOT NULL,
  lines text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (run_id, number)
);

-- Whose rows are gone and whose blobs must follow.
CREATE TABLE blob_deletions (
  prefix text PRIMARY KEY,
  -- Later than now where an executor may still be writing.
  due_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX blob_deletions_due_idx ON blob_deletions (due_at);

CREATE TABLE output_tickets (
  ticket_hash bytea PRIMARY KEY,
  run_id uuid NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  expires_at timestamptz NOT NULL
);
CREATE INDEX output_tickets_expires_idx ON output_tickets (expires_at);

CREATE TABLE webhooks (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  url text NOT NULL,
  events jsonb NOT NULL,
  secret_box bytea NOT NULL,
  enabled boolean NOT NULL DEFAULT true,
  description text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz
);
CREATE INDEX webhooks_created_idx ON webhooks (organization_id, created_at DESC, id);

CREATE TABLE webhook_deliveries (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  webhook_id uuid NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
  organization_id uuid NOT NULL,
  event text NOT NULL,
  payload jsonb NOT NULL,
  status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  response_status integer,
  error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz
);
CREATE INDEX webhook_deliveries_webhook_idx ON webhook_deliveries (webhook_id, created_at DESC, id);
CREATE INDEX webhook_deliveries_due_idx ON webhook_deliveries (next_attempt_at) WHERE status = 'pending';
-- Organizations with something to send are found by hopping over it, however much one of them has.
CREATE INDEX webhook_deliveries_organization_idx ON webhook_deliveries (organization_id, next_attempt_at) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_finished_idx ON webhook_deliveries (finished_at) WHERE finished_at IS NOT NULL;
