-- What many pipelines do at once is told in one message. `told_at`: since then a message of an alert is one that is sent, alone
-- or for others. `told_with`: the delivery whose message tells this one too; this one is finished then, and what became of it
-- is what became of that message. There is no reference: both are removed after the same time.
ALTER TABLE webhook_deliveries ADD COLUMN told_at timestamptz, ADD COLUMN told_with uuid;
-- These may have arrived already, so they go on alone.
UPDATE webhook_deliveries SET told_at = now() WHERE alert_id IS NOT NULL AND status = 'pending' AND attempts > 0;
CREATE INDEX webhook_deliveries_untold_idx ON webhook_deliveries (alert_id, incident_id) WHERE alert_id IS NOT NULL AND status = 'pending' AND told_at IS NULL;
CREATE INDEX webhook_deliveries_told_idx ON webhook_deliveries (alert_id, event, told_at) WHERE told_at IS NOT NULL;
CREATE INDEX webhook_deliveries_told_with_idx ON webhook_deliveries (told_with) WHERE told_with IS NOT NULL;
