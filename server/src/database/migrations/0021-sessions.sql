-- Two tabs may exchange one refresh token at once, and both get a successor. Once one of these is used the other has ended.
ALTER TABLE refresh_tokens ADD COLUMN parent_hash bytea;
ALTER TABLE refresh_tokens ADD COLUMN superseded_at timestamptz;

-- What a person needs to recognise a session in their list.
ALTER TABLE sessions ADD COLUMN last_used_at timestamptz NOT NULL DEFAULT now();
ALTER TABLE sessions ADD COLUMN client_address text;
ALTER TABLE sessions ADD COLUMN user_agent text;
