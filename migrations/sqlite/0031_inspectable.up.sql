-- Whether short URLs of the workspace followed by + show their destinations.
ALTER TABLE workspaces ADD inspectable INTEGER NOT NULL DEFAULT FALSE;
