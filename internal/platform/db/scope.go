package db

import (
	"context"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
	"github.com/linkforge/linkforge/internal/platform/db/replica"
)

// UpToDate returns a context whose reads use the primary, see package replica.
func UpToDate(ctx context.Context) context.Context { return replica.UpToDate(ctx) }

// InWorkspace returns a context whose statements see one workspace, and what AsAccount shows to the
// account, which is a member or empty. Only the proof of a membership calls it.
func InWorkspace(ctx context.Context, workspaceID, accountID string) context.Context {
	return pgscope.WithScope(ctx, pgscope.Scope{Role: pgscope.Tenant, Workspace: workspaceID, Account: accountID})
}

// AsAccount returns a context whose statements see an account's memberships and their workspaces.
func AsAccount(ctx context.Context, accountID string) context.Context {
	return pgscope.WithScope(ctx, pgscope.Scope{Role: pgscope.Tenant, Account: accountID})
}

// AsResolver returns a context whose statements look up the workspace of an object: they see the
// links, slugs, domains and keys of all workspaces and change one column.
func AsResolver(ctx context.Context) context.Context {
	return pgscope.WithScope(ctx, pgscope.Scope{Role: pgscope.Resolver})
}

// AsCreator returns a context whose statements create links in several workspaces: they see the
// rows that a creation reads there, and insert the rows that it writes. Only the proofs of
// memberships of all these workspaces permit it.
func AsCreator(ctx context.Context, workspaceIDs ...string) context.Context {
	return pgscope.WithScope(ctx, pgscope.Scope{Role: pgscope.Creator, Workspace: strings.Join(workspaceIDs, ",")})
}

// AsSystem returns a context whose statements see all workspaces: for jobs, the operator's
// commands, and moves between workspaces.
func AsSystem(ctx context.Context) context.Context {
	return pgscope.WithScope(ctx, pgscope.Scope{Role: pgscope.System})
}

// AsOwner returns a context whose statements run as the role that has connected, which owns the
// tables: for migrations.
func AsOwner(ctx context.Context) context.Context {
	return pgscope.WithScope(ctx, pgscope.Scope{Role: pgscope.Owner})
}

// Briefly returns a context in whose scope statements end after ListTimeout, with Unavailable: for
// lists, whose filter may find little among many rows. Call it after the scope is entered.
func (d *DB) Briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.Kind == SQLite && d.ListTimeout > 0 {
		return context.WithTimeoutCause(ctx, d.ListTimeout, pgscope.ErrTooLong())
	}
	s := pgscope.Of(ctx)
	s.Brief = true
	return pgscope.WithScope(ctx, s), func() {}
}

// WithShortLockTimeout returns a context in whose scope statements wait at most 100 ms for a lock,
// and fail with an error of IsLockTimeout: for statements that several callers share. Call it after
// the scope is entered.
func WithShortLockTimeout(ctx context.Context) context.Context {
	s := pgscope.Of(ctx)
	s.ShortLockTimeout = true
	return pgscope.WithScope(ctx, s)
}

// CheckConnection connects to PostgreSQL. SQLite has no connection.
func (d *DB) CheckConnection(ctx context.Context) error {
	if d.Kind != Postgres {
		return nil
	}
	return pgscope.CheckConnection(ctx, d.DB)
}

// CheckScopes returns an error unless row-level security is in force on PostgreSQL. A server must
// not start otherwise.
func (d *DB) CheckScopes(ctx context.Context) error {
	if d.Kind != Postgres {
		return nil
	}
	return pgscope.CheckScopes(ctx, d.DB)
}
