ALTER TABLE leases DROP node;
ALTER TABLE leases DROP began_at;
ALTER TABLE leases DROP ended_at;
ALTER TABLE leases DROP error;
