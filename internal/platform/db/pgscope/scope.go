// Package pgscope connects to PostgreSQL so that each statement runs in a scope: the role, the
// workspace and the account on which the policies of row-level security depend, and its timeouts. A
// change of the scope, and statements that are deferred or sent ahead, share a round trip with the
// statement (batch.go). It knows no tables.
//
// Package db opens the pools, and has the scopes that callers use; package replica connects to
// standbys.
package pgscope

import (
	"context"
	"time"
)

// The roles that statements run as. They own nothing and bypass nothing; the migrations say what
// each may see and change.
const (
	Tenant   = "linkforge_tenant"
	Resolver = "linkforge_resolver"
	Creator  = "linkforge_creator"
	System   = "linkforge_system"
	Owner    = "none" // the role that has connected
)

// Scope bounds the visible rows of a statement: one workspace, or a list for the role of creators,
// and the memberships of one account. The zero Scope sees no tenant's rows.
type Scope struct {
	Role, Workspace, Account string
	// Brief statements have the timeout of lists. With ShortLockTimeout they wait at most 100 ms
	// for a lock.
	Brief, ShortLockTimeout bool
}

// has reports whether statements of another scope can run in this one: an equal one, or that of the
// account whose membership was entered.
func (s Scope) has(other Scope) bool {
	if other.Account != "" && other.Workspace == "" {
		other.Workspace = s.Workspace
	}
	return s == other
}

type scopeKey struct{}

// WithScope returns a context whose statements run in a scope.
func WithScope(ctx context.Context, s Scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

// Of returns the scope of a context, which without one is that of a tenant without a workspace.
func Of(ctx context.Context) Scope {
	if s, ok := ctx.Value(scopeKey{}).(Scope); ok {
		return s
	}
	return Scope{Role: Tenant}
}

// Timeouts are those of statements, of their waits for locks, and of brief statements; zero means
// no limit. They do not apply to the roles System and Owner.
type Timeouts struct{ Statement, Lock, List time.Duration }

// shortLockTimeout is the lock timeout of scopes with ShortLockTimeout.
const shortLockTimeout = 100 * time.Millisecond

// boundKey is the context key of the values of parameters.
type boundKey struct{}

// Bind returns a context for one statement with the parameters $1, $2 and so on. The connection
// keeps it prepared, so it must have a single good plan. PostgreSQL plans again for another role
// and reads the workspace at execution.
func Bind(ctx context.Context, values ...any) context.Context {
	return context.WithValue(ctx, boundKey{}, values)
}

// deferredKey is the context key of statements that can wait.
type deferredKey struct{}

// Defer returns a context for one statement with parameters whose result the caller does not need.
// Within a transaction it is sent with the next statement, or with the commit, whose error is also
// that of the statement; its values must not change until then. Elsewhere it runs at once.
func Defer(ctx context.Context) context.Context {
	return context.WithValue(ctx, deferredKey{}, true)
}

// Bound returns the values of the parameters of a statement.
func Bound(ctx context.Context) []any {
	values, _ := ctx.Value(boundKey{}).([]any)
	return values
}
