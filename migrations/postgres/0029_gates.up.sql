-- The hash of the password that visitors of a link need. Its routing has the name of the password, so that each change of
-- the password is a change of the routing too.
ALTER TABLE links ADD password_hash TEXT COLLATE "C";
