-- A webhook that nobody answers is disabled after three days, and says why.
ALTER TABLE webhooks
  -- Since the first attempt that failed after the last one that arrived.
  ADD COLUMN failing_since timestamptz,
  ADD COLUMN disabled_reason text;
