-- Made by `npm run docs` from a migrated database; changes belong into a new migration.

CREATE TABLE api_keys (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL,
  created_by uuid NOT NULL,
  name text NOT NULL,
  key_prefix text NOT NULL,
  key_hash bytea NOT NULL,
  scopes jsonb NOT NULL DEFAULT '{}'::jsonb,
  last_used_at timestamp with time zone,
  expires_at timestamp with time zone,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  revoked_at timestamp with time zone,
  made_with uuid,
  CONSTRAINT api_keys_pkey PRIMARY KEY (id),
  CONSTRAINT api_keys_created_by_fkey FOREIGN KEY (created_by) REFERENCES users(id) ON DELETE CASCADE,
  CONSTRAINT api_keys_made_with_fkey FOREIGN KEY (made_with) REFERENCES api_keys(id) ON DELETE CASCADE,
  CONSTRAINT api_keys_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX api_keys_created_idx ON public.api_keys USING btree (organization_id, created_at DESC, id) WHERE (revoked_at IS NULL);
CREATE INDEX api_keys_creator_idx ON public.api_keys USING btree (created_by);
CREATE UNIQUE INDEX api_keys_hash_key ON public.api_keys USING btree (key_hash);
CREATE INDEX api_keys_made_with_idx ON public.api_keys USING btree (made_with) WHERE (made_with IS NOT NULL);

CREATE TABLE audit_log (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  organization_id uuid,
  at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  actor_id uuid,
  actor_email text,
  api_key_id uuid,
  action text NOT NULL,
  object_type text NOT NULL,
  object_id text,
  details jsonb NOT NULL DEFAULT '{}'::jsonb,
  request_id text,
  client_address text,
  CONSTRAINT audit_log_pkey PRIMARY KEY (id),
  CONSTRAINT audit_log_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX audit_log_action_idx ON public.audit_log USING btree (organization_id, action, at DESC, id DESC);
CREATE INDEX audit_log_actor_idx ON public.audit_log USING btree (organization_id, actor_id, at DESC, id DESC);
CREATE INDEX audit_log_object_idx ON public.audit_log USING btree (organization_id, object_id, at DESC, id DESC);
CREATE INDEX audit_log_organization_idx ON public.audit_log USING btree (organization_id, at DESC, id DESC);
CREATE INDEX audit_log_type_idx ON public.audit_log USING btree (organization_id, object_type, at DESC, id DESC);

CREATE TABLE blob_deletions (
  prefix text NOT NULL,
  due_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT blob_deletions_pkey PRIMARY KEY (prefix)
);
CREATE INDEX blob_deletions_due_idx ON public.blob_deletions USING btree (due_at);

CREATE TABLE custom_source_versions (
  custom_source_id uuid NOT NULL,
  version integer NOT NULL,
  code text NOT NULL,
  streams jsonb NOT NULL,
  config_schema jsonb NOT NULL DEFAULT '{}'::jsonb,
  created_by uuid,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT custom_source_versions_pkey PRIMARY KEY (custom_source_id, version),
  CONSTRAINT custom_source_versions_created_by_fkey FOREIGN KEY (created_by) REFERENCES users(id) ON DELETE SET NULL,
  CONSTRAINT custom_source_versions_custom_source_id_fkey FOREIGN KEY (custom_source_id) REFERENCES custom_sources(id) ON DELETE CASCADE
);

CREATE TABLE custom_sources (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL,
  name text NOT NULL,
  source_name text NOT NULL,
  description text,
  version integer NOT NULL DEFAULT 1,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  updated_at timestamp with time zone,
  CONSTRAINT custom_sources_pkey PRIMARY KEY (id),
  CONSTRAINT custom_sources_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX custom_sources_created_idx ON public.custom_sources USING btree (organization_id, created_at DESC, id);
CREATE UNIQUE INDEX custom_sources_name_key ON public.custom_sources USING btree (organization_id, source_name);

CREATE TABLE domain_roles (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL,
  user_id uuid NOT NULL,
  domain_id uuid NOT NULL,
  role text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT domain_roles_pkey PRIMARY KEY (id),
  CONSTRAINT domain_roles_role_check CHECK ((role = ANY (ARRAY['admin'::text, 'member'::text]))),
  CONSTRAINT domain_roles_organization_id_domain_id_fkey FOREIGN KEY (organization_id, domain_id) REFERENCES domains(organization_id, id) ON DELETE CASCADE,
  CONSTRAINT domain_roles_organization_id_user_id_fkey FOREIGN KEY (organization_id, user_id) REFERENCES memberships(organization_id, user_id) ON DELETE CASCADE
);
CREATE INDEX domain_roles_domain_idx ON public.domain_roles USING btree (organization_id, domain_id);
CREATE UNIQUE INDEX domain_roles_key ON public.domain_roles USING btree (organization_id, user_id, domain_id);

CREATE TABLE domains (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL,
  name text NOT NULL,
  description text,
  color text,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  updated_at timestamp with time zone,
  CONSTRAINT domains_pkey PRIMARY KEY (id),
  CONSTRAINT domains_organization_id_id_key UNIQUE (organization_id, id),
  CONSTRAINT domains_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX domains_created_idx ON public.domains USING btree (organization_id, created_at DESC, id);
CREATE UNIQUE INDEX domains_name_key ON public.domains USING btree (organization_id, name);

CREATE TABLE idp_states (
  state_hash bytea NOT NULL,
  browser_hash bytea NOT NULL,
  code_verifier text NOT NULL,
  nonce text NOT NULL,
  link_user_id uuid,
  link_organization_id uuid,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT idp_states_pkey PRIMARY KEY (state_hash),
  CONSTRAINT idp_states_link_organization_id_fkey FOREIGN KEY (link_organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  CONSTRAINT idp_states_link_user_id_fkey FOREIGN KEY (link_user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX idp_states_expires_idx ON public.idp_states USING btree (expires_at);

CREATE TABLE installation (
  only_row boolean NOT NULL DEFAULT true,
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  since timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT installation_pkey PRIMARY KEY (only_row),
  CONSTRAINT installation_only_row_check CHECK (only_row)
);

CREATE TABLE invitations (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL,
  email text NOT NULL,
  role text NOT NULL,
  token_hash bytea NOT NULL,
  status text NOT NULL DEFAULT 'pending'::text,
  invited_by uuid,
  accepted_by uuid,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone NOT NULL,
  ended_at timestamp with time zone,
  opened_account_id uuid,
  CONSTRAINT invitations_pkey PRIMARY KEY (id),
  CONSTRAINT invitations_email_check CHECK ((email = lower(email))),
  CONSTRAINT invitations_role_check CHECK ((role = ANY (ARRAY['admin'::text, 'member'::text, 'viewer'::text]))),
  CONSTRAINT invitations_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'accepted'::text, 'cancelled'::text, 'expired'::text]))),
  CONSTRAINT invitations_accepted_by_fkey FOREIGN KEY (accepted_by) REFERENCES users(id) ON DELETE SET NULL,
  CONSTRAINT invitations_invited_by_fkey FOREIGN KEY (invited_by) REFERENCES users(id) ON DELETE SET NULL,
  CONSTRAINT invitations_opened_account_id_fkey FOREIGN KEY (opened_account_id) REFERENCES users(id) ON DELETE SET NULL,
  CONSTRAINT invitations_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX invitations_created_idx ON public.invitations USING btree (organization_id, created_at DESC, id) WHERE (status = 'pending'::text);
CREATE INDEX invitations_email_idx ON public.invitations USING btree (email) WHERE (status = 'pending'::text);
CREATE INDEX invitations_inviter_idx ON public.invitations USING btree (invited_by) WHERE (status = 'pending'::text);
CREATE UNIQUE INDEX invitations_pending_key ON public.invitations USING btree (organization_id, email) WHERE (status = 'pending'::text);
CREATE UNIQUE INDEX invitations_token_key ON public.invitations USING btree (token_hash);

CREATE TABLE listening_workers (
  seat integer NOT NULL,
  worker text,
  until timestamp with time zone NOT NULL DEFAULT '-infinity'::timestamp with time zone,
  CONSTRAINT listening_workers_pkey PRIMARY KEY (seat)
);

CREATE TABLE login_attempts (
  key text NOT NULL,
  window_start timestamp with time zone NOT NULL DEFAULT now(),
  attempts integer NOT NULL DEFAULT 0,
  CONSTRAINT login_attempts_pkey PRIMARY KEY (key)
);
CREATE INDEX login_attempts_window_idx ON public.login_attempts USING btree (window_start);

CREATE TABLE memberships (
  organization_id uuid NOT NULL,
  user_id uuid NOT NULL,
  role text NOT NULL,
  joined_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT memberships_pkey PRIMARY KEY (organization_id, user_id),
  CONSTRAINT memberships_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text, 'viewer'::text]))),
  CONSTRAINT memberships_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  CONSTRAINT memberships_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX memberships_joined_idx ON public.memberships USING btree (organization_id, joined_at DESC, user_id);
CREATE UNIQUE INDEX memberships_owner_key ON public.memberships USING btree (organization_id) WHERE (role = 'owner'::text);
CREATE INDEX memberships_user_idx ON public.memberships USING btree (user_id);

CREATE TABLE organization_storage (
  organization_id uuid NOT NULL,
  stored_bytes bigint NOT NULL,
  CONSTRAINT organization_storage_pkey PRIMARY KEY (organization_id),
  CONSTRAINT organization_storage_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
) WITH (fillfactor=50);

CREATE TABLE organizations (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  name text NOT NULL,
  slug text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  updated_at timestamp with time zone,
  CONSTRAINT organizations_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX organizations_slug_key ON public.organizations USING btree (slug);

CREATE TABLE output_tickets (
  ticket_hash bytea NOT NULL,
  run_id uuid NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT output_tickets_pkey PRIMARY KEY (ticket_hash),
  CONSTRAINT output_tickets_run_id_fkey FOREIGN KEY (run_id) REFERENCES runs(id) ON DELETE CASCADE
);
CREATE INDEX output_tickets_expires_idx ON public.output_tickets USING btree (expires_at);

CREATE TABLE pipeline_activity (
  pipeline_id uuid NOT NULL,
  organization_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL,
  last_run_seq bigint,
  last_run_status text,
  last_run_at timestamp with time zone,
  CONSTRAINT pipeline_activity_pkey PRIMARY KEY (pipeline_id),
  CONSTRAINT pipeline_activity_pipeline_id_fkey FOREIGN KEY (pipeline_id) REFERENCES pipelines(id) ON DELETE CASCADE
);
CREATE INDEX pipeline_activity_status_idx ON public.pipeline_activity USING btree (organization_id, last_run_status, created_at DESC, pipeline_id);
CREATE INDEX pipeline_activity_time_idx ON public.pipeline_activity USING btree (organization_id, last_run_at DESC NULLS LAST, pipeline_id);

CREATE TABLE pipeline_schemas (
  pipeline_id uuid NOT NULL,
  columns jsonb NOT NULL,
  changes jsonb NOT NULL DEFAULT '[]'::jsonb,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  fingerprint jsonb,
  CONSTRAINT pipeline_schemas_pkey PRIMARY KEY (pipeline_id),
  CONSTRAINT pipeline_schemas_pipeline_id_fkey FOREIGN KEY (pipeline_id) REFERENCES pipelines(id) ON DELETE CASCADE
);

CREATE TABLE pipeline_state (
  pipeline_id uuid NOT NULL,
  seq bigint NOT NULL,
  cursor jsonb NOT NULL,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  fingerprint jsonb,
  CONSTRAINT pipeline_state_pkey PRIMARY KEY (pipeline_id),
  CONSTRAINT pipeline_state_pipeline_id_fkey FOREIGN KEY (pipeline_id) REFERENCES pipelines(id) ON DELETE CASCADE
);

CREATE TABLE pipelines (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL,
  name text NOT NULL,
  config_box bytea NOT NULL,
  source_name text,
  stream text NOT NULL,
  destination_name text,
  saved_source_id uuid,
  saved_destination_id uuid,
  schedule text,
  timezone text,
  enabled boolean NOT NULL DEFAULT true,
  domain_id uuid,
  next_run_at timestamp with time zone,
  created_by uuid,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  updated_at timestamp with time zone,
  CONSTRAINT pipelines_pkey PRIMARY KEY (id),
  CONSTRAINT pipelines_organization_id_id_key UNIQUE (organization_id, id),
  CONSTRAINT pipelines_created_by_fkey FOREIGN KEY (created_by) REFERENCES users(id) ON DELETE SET NULL,
  CONSTRAINT pipelines_organization_id_domain_id_fkey FOREIGN KEY (organization_id, domain_id) REFERENCES domains(organization_id, id) ON DELETE RESTRICT,
  CONSTRAINT pipelines_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX pipelines_created_idx ON public.pipelines USING btree (organization_id, created_at DESC, id) INCLUDE (name);
CREATE INDEX pipelines_destination_idx ON public.pipelines USING btree (organization_id, destination_name, created_at DESC, id);
CREATE INDEX pipelines_domain_idx ON public.pipelines USING btree (organization_id, domain_id, created_at DESC, id);
CREATE INDEX pipelines_due_idx ON public.pipelines USING btree (next_run_at) WHERE (enabled AND (next_run_at IS NOT NULL));
CREATE INDEX pipelines_enabled_idx ON public.pipelines USING btree (organization_id, enabled, created_at DESC, id);
CREATE INDEX pipelines_manual_idx ON public.pipelines USING btree (organization_id, created_at DESC, id) WHERE (schedule IS NULL);
CREATE INDEX pipelines_name_idx ON public.pipelines USING btree (organization_id, lower(name), id) INCLUDE (name);
CREATE INDEX pipelines_next_run_idx ON public.pipelines USING btree (organization_id, next_run_at, id);
CREATE INDEX pipelines_saved_destination_idx ON public.pipelines USING btree (saved_destination_id, created_at DESC, id) WHERE (saved_destination_id IS NOT NULL);
CREATE INDEX pipelines_saved_source_idx ON public.pipelines USING btree (saved_source_id, created_at DESC, id) WHERE (saved_source_id IS NOT NULL);
CREATE INDEX pipelines_scheduled_idx ON public.pipelines USING btree (organization_id, created_at DESC, id) WHERE (schedule IS NOT NULL);
CREATE INDEX pipelines_source_idx ON public.pipelines USING btree (organization_id, source_name, created_at DESC, id);
CREATE TRIGGER pipelines_begin_activity AFTER INSERT ON public.pipelines FOR EACH ROW EXECUTE FUNCTION begin_pipeline_activity();

CREATE TABLE refresh_leases (
  credential_id uuid NOT NULL,
  organization_id uuid NOT NULL,
  holder uuid NOT NULL,
  lease_until timestamp with time zone NOT NULL,
  CONSTRAINT refresh_leases_pkey PRIMARY KEY (credential_id),
  CONSTRAINT refresh_leases_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);

CREATE TABLE refresh_tokens (
  token_hash bytea NOT NULL,
  session_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  used_at timestamp with time zone,
  parent_hash bytea,
  superseded_at timestamp with time zone,
  CONSTRAINT refresh_tokens_pkey PRIMARY KEY (token_hash),
  CONSTRAINT refresh_tokens_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE
);
CREATE INDEX refresh_tokens_session_idx ON public.refresh_tokens USING btree (session_id);

CREATE TABLE run_log_chunks (
  run_id uuid NOT NULL,
  number integer NOT NULL,
  first_line integer NOT NULL,
  line_count integer NOT NULL,
  lines text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT run_log_chunks_pkey PRIMARY KEY (run_id, number),
  CONSTRAINT run_log_chunks_run_id_fkey FOREIGN KEY (run_id) REFERENCES runs(id) ON DELETE CASCADE
);

CREATE TABLE runs (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL,
  pipeline_id uuid NOT NULL,
  seq bigint NOT NULL DEFAULT nextval('run_seq'::regclass),
  status text NOT NULL DEFAULT 'pending'::text,
  triggered_by text NOT NULL,
  triggered_by_user uuid,
  ready boolean NOT NULL,
  available_at timestamp with time zone NOT NULL DEFAULT now(),
  config_box bytea,
  source_version integer,
  attempt integer NOT NULL DEFAULT 0,
  lost_attempts integer NOT NULL DEFAULT 0,
  failed_attempts integer NOT NULL DEFAULT 0,
  worker text,
  lease_until timestamp with time zone,
  checkpoint integer NOT NULL DEFAULT 0,
  cursor jsonb,
  parts jsonb NOT NULL DEFAULT '[]'::jsonb,
  records_read bigint NOT NULL DEFAULT 0,
  records_written bigint NOT NULL DEFAULT 0,
  bytes_written bigint NOT NULL DEFAULT 0,
  error text,
  output_file text,
  output_file_size bigint,
  output_parts jsonb,
  output_type text,
  log_key text,
  stage_left boolean NOT NULL DEFAULT false,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  CONSTRAINT runs_pkey PRIMARY KEY (id),
  CONSTRAINT runs_check CHECK (((finished_at IS NOT NULL) = (status = ANY (ARRAY['success'::text, 'failed'::text, 'cancelled'::text])))),
  CONSTRAINT runs_check1 CHECK (((output_file IS NULL) OR (status = 'success'::text))),
  CONSTRAINT runs_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'running'::text, 'success'::text, 'failed'::text, 'cancelled'::text]))),
  CONSTRAINT runs_organization_id_pipeline_id_fkey FOREIGN KEY (organization_id, pipeline_id) REFERENCES pipelines(organization_id, id) ON DELETE CASCADE
) WITH (fillfactor=80);
CREATE INDEX runs_ended_idx ON public.runs USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX runs_finished_idx ON public.runs USING btree (finished_at, id) WHERE ((output_file IS NOT NULL) OR (log_key IS NOT NULL));
CREATE UNIQUE INDEX runs_one_active_key ON public.runs USING btree (pipeline_id) WHERE ((status = 'running'::text) OR ((status = 'pending'::text) AND ready));
CREATE INDEX runs_organization_idx ON public.runs USING btree (organization_id, created_at DESC, seq DESC);
CREATE INDEX runs_organization_status_idx ON public.runs USING btree (organization_id, status, created_at DESC, seq DESC);
CREATE INDEX runs_pipeline_idx ON public.runs USING btree (pipeline_id, seq DESC);
CREATE INDEX runs_pipeline_status_idx ON public.runs USING btree (pipeline_id, status, seq DESC);
CREATE INDEX runs_ready_idx ON public.runs USING btree (organization_id, available_at, seq) WHERE ((status = 'pending'::text) AND ready);
CREATE INDEX runs_retry_idx ON public.runs USING btree (available_at) WHERE ((status = 'pending'::text) AND ready AND (failed_attempts > 0));
CREATE INDEX runs_running_idx ON public.runs USING btree (organization_id) WHERE (status = 'running'::text);
CREATE UNIQUE INDEX runs_seq_key ON public.runs USING btree (seq);
CREATE INDEX runs_stage_left_idx ON public.runs USING btree (finished_at, id) WHERE (stage_left AND (finished_at IS NOT NULL));
CREATE INDEX runs_trigger_idx ON public.runs USING btree (organization_id, triggered_by, created_at DESC, seq DESC) WHERE (triggered_by <> 'schedule'::text);
CREATE INDEX runs_waiting_idx ON public.runs USING btree (pipeline_id, seq) WHERE ((status = 'pending'::text) AND (NOT ready));
CREATE TRIGGER runs_note_last AFTER INSERT OR UPDATE OF status ON public.runs FOR EACH ROW EXECUTE FUNCTION note_last_run();
CREATE TRIGGER runs_note_removed AFTER DELETE ON public.runs REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note_removed_outputs();
CREATE TRIGGER runs_note_stored AFTER UPDATE OF output_file_size ON public.runs FOR EACH ROW WHEN ((old.output_file_size IS DISTINCT FROM new.output_file_size)) EXECUTE FUNCTION note_stored_output();

CREATE TABLE saved_connectors (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL,
  type text NOT NULL,
  name text NOT NULL,
  connector_name text NOT NULL,
  config_box bytea NOT NULL,
  description text,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  updated_at timestamp with time zone,
  CONSTRAINT saved_connectors_pkey PRIMARY KEY (id),
  CONSTRAINT saved_connectors_type_check CHECK ((type = ANY (ARRAY['source'::text, 'destination'::text]))),
  CONSTRAINT saved_connectors_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX saved_connectors_connector_idx ON public.saved_connectors USING btree (organization_id, connector_name, created_at DESC, id) WHERE (type = 'source'::text);
CREATE INDEX saved_connectors_created_idx ON public.saved_connectors USING btree (organization_id, type, created_at DESC, id);

CREATE TABLE schema_migrations (
  number integer NOT NULL,
  name text NOT NULL,
  checksum text NOT NULL,
  applied_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT schema_migrations_pkey PRIMARY KEY (number)
);

CREATE TABLE sessions (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  user_id uuid NOT NULL,
  organization_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone NOT NULL,
  revoked_at timestamp with time zone,
  api_key_id uuid,
  last_used_at timestamp with time zone NOT NULL DEFAULT now(),
  client_address text,
  user_agent text,
  CONSTRAINT sessions_pkey PRIMARY KEY (id),
  CONSTRAINT sessions_api_key_id_fkey FOREIGN KEY (api_key_id) REFERENCES api_keys(id) ON DELETE CASCADE,
  CONSTRAINT sessions_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  CONSTRAINT sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX sessions_api_key_idx ON public.sessions USING btree (api_key_id) WHERE (api_key_id IS NOT NULL);
CREATE INDEX sessions_expires_idx ON public.sessions USING btree (expires_at);
CREATE INDEX sessions_user_idx ON public.sessions USING btree (user_id);

CREATE TABLE superseded_tokens (
  credential_id uuid NOT NULL,
  token_hash bytea NOT NULL,
  organization_id uuid NOT NULL,
  superseded_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT superseded_tokens_pkey PRIMARY KEY (credential_id, token_hash),
  CONSTRAINT superseded_tokens_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX superseded_tokens_time_idx ON public.superseded_tokens USING btree (superseded_at);

CREATE TABLE user_identities (
  issuer text NOT NULL,
  subject text NOT NULL,
  user_id uuid NOT NULL,
  email text,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  last_used_at timestamp with time zone,
  CONSTRAINT user_identities_pkey PRIMARY KEY (issuer, subject),
  CONSTRAINT user_identities_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX user_identities_user_idx ON public.user_identities USING btree (user_id);

CREATE TABLE users (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  email text NOT NULL,
  name text NOT NULL,
  avatar_url text,
  password_hash text,
  last_organization_id uuid,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  updated_at timestamp with time zone,
  email_verified_at timestamp with time zone,
  CONSTRAINT users_pkey PRIMARY KEY (id),
  CONSTRAINT users_email_check CHECK ((email = lower(email)))
);
CREATE UNIQUE INDEX users_email_key ON public.users USING btree (email);

CREATE TABLE webhook_deliveries (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  webhook_id uuid NOT NULL,
  organization_id uuid NOT NULL,
  event text NOT NULL,
  payload jsonb NOT NULL,
  status text NOT NULL DEFAULT 'pending'::text,
  attempts integer NOT NULL DEFAULT 0,
  next_attempt_at timestamp with time zone NOT NULL DEFAULT now(),
  response_status integer,
  error text,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  finished_at timestamp with time zone,
  CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (id),
  CONSTRAINT webhook_deliveries_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text]))),
  CONSTRAINT webhook_deliveries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE
);
CREATE INDEX webhook_deliveries_due_idx ON public.webhook_deliveries USING btree (next_attempt_at) WHERE (status = 'pending'::text);
CREATE INDEX webhook_deliveries_finished_idx ON public.webhook_deliveries USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX webhook_deliveries_organization_idx ON public.webhook_deliveries USING btree (organization_id, next_attempt_at) WHERE (status = 'pending'::text);
CREATE INDEX webhook_deliveries_webhook_idx ON public.webhook_deliveries USING btree (webhook_id, created_at DESC, id);

CREATE TABLE webhooks (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL,
  url text NOT NULL,
  events jsonb NOT NULL,
  secret_box bytea NOT NULL,
  enabled boolean NOT NULL DEFAULT true,
  description text,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  updated_at timestamp with time zone,
  failing_since timestamp with time zone,
  disabled_reason text,
  CONSTRAINT webhooks_pkey PRIMARY KEY (id),
  CONSTRAINT webhooks_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX webhooks_created_idx ON public.webhooks USING btree (organization_id, created_at DESC, id);

CREATE OR REPLACE FUNCTION public.append_run_log(run uuid, of_attempt integer, count_of_lines integer, text_of_lines text)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
END $function$
;

CREATE OR REPLACE FUNCTION public.begin_pipeline_activity()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO pipeline_activity (pipeline_id, organization_id, created_at) VALUES (NEW.id, NEW.organization_id, NEW.created_at);
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.claim_runs(claimer text, free integer, per_organization integer, lease_seconds double precision, after uuid, OUT run_ids uuid[], OUT attempts integer[], OUT busy boolean, OUT next_after uuid)
 RETURNS record
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
 SET enable_incremental_sort TO 'off'
 SET jit TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
END $function$
;

CREATE OR REPLACE FUNCTION public.end_run(run uuid, pipeline uuid, count_of_lines integer, text_of_lines text, claimer text, free integer, per_organization integer, lease_seconds double precision, after uuid, OUT run_ids uuid[], OUT attempts integer[], OUT busy boolean, OUT next_after uuid)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
END $function$
;

CREATE OR REPLACE FUNCTION public.note_last_run()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM 1 FROM pipelines p WHERE p.id = NEW.pipeline_id FOR NO KEY UPDATE;
  UPDATE pipeline_activity
     SET last_run_seq = NEW.seq, last_run_status = NEW.status, last_run_at = coalesce(NEW.started_at, NEW.created_at)
   WHERE pipeline_id = NEW.pipeline_id AND (last_run_seq IS NULL OR last_run_seq <= NEW.seq);
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.note_removed_outputs()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  UPDATE organization_storage s SET stored_bytes = s.stored_bytes - g.bytes
    FROM (SELECT organization_id, sum(output_file_size) AS bytes FROM gone WHERE output_file_size IS NOT NULL GROUP BY organization_id) g
   WHERE s.organization_id = g.organization_id;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.note_stored_output()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE
  change bigint := coalesce(NEW.output_file_size, 0) - coalesce(OLD.output_file_size, 0);
BEGIN
  UPDATE organization_storage SET stored_bytes = stored_bytes + change WHERE organization_id = NEW.organization_id;
  IF NOT FOUND AND change > 0 THEN
    INSERT INTO organization_storage AS s (organization_id, stored_bytes) VALUES (NEW.organization_id, change)
    ON CONFLICT (organization_id) DO UPDATE SET stored_bytes = s.stored_bytes + excluded.stored_bytes;
  END IF;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.ready_forgotten_runs(at_most integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
END $function$
;

CREATE OR REPLACE FUNCTION public.ready_next_run(pipeline uuid)
 RETURNS uuid
 LANGUAGE plpgsql
AS $function$
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
END $function$
;
