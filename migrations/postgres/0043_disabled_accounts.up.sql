-- When the operator disabled an account.
ALTER TABLE accounts ADD COLUMN disabled_at TIMESTAMPTZ;
