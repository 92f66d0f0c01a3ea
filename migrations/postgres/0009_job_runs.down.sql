ALTER TABLE leases DROP node, DROP began_at, DROP ended_at, DROP error;
