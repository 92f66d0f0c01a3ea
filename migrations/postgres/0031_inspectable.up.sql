-- Whether short URLs of the workspace followed by + show their destinations.
ALTER TABLE workspaces ADD inspectable BOOLEAN NOT NULL DEFAULT FALSE;
