-- With SIGNUP=invited an invitation opens one account. Accepting it uses it up; an account that was made at the identity
-- provider accepts later, so it is noted here.
ALTER TABLE invitations ADD COLUMN opened_account_id uuid REFERENCES users (id) ON DELETE SET NULL;
CREATE INDEX invitations_inviter_idx ON invitations (invited_by) WHERE status = 'pending';

-- When a provider has proven that the address belongs to the person. Null: nobody has.
ALTER TABLE users ADD COLUMN email_verified_at timestamptz;

-- Invitations end with the right to invite of whoever sent them.
UPDATE invitations i SET status = 'cancelled', ended_at = now()
 WHERE status = 'pending' AND NOT EXISTS (
   SELECT 1 FROM memberships m
    WHERE m.organization_id = i.organization_id AND m.user_id = i.invited_by AND m.role IN ('admin', 'owner'));

-- The token travels in a cookie and was never stored.
ALTER TABLE idp_states DROP COLUMN invitation_token;
