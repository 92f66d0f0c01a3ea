package db

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/admission"
)

const (
	// reserveDivisor divides the pool: a fifth of the connections is for statements that nobody owns,
	// such as those of redirects and authentication.
	reserveDivisor = 5
	// maxTurnWait bounds the wait of a statement for its owner's turn.
	maxTurnWait = 5 * time.Second
	// maxOwnWaiting bounds the waiting statements of one owner, maxAllWaiting those of all.
	maxOwnWaiting, maxAllWaiting = 500, 5000
)

// ownerKey is the context key of the owner of statements.
type ownerKey struct{}

// OwnedBy returns a context whose statements and transactions take turns with those of other owners:
// an owner, such as an account, uses half of the connections at most. Without an owner statements
// take no turns.
func OwnedBy(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// Unowned returns a context whose statements take no turns, for those that several callers share.
func Unowned(ctx context.Context) context.Context { return OwnedBy(ctx, "") }

// fairness divides the connections of a database between owners.
type fairness struct {
	// reads admits single SELECT statements, writes all others and transactions. On PostgreSQL, whose
	// connections serve both, they are the same.
	reads, writes *admission.Gate
	primary       *sql.DB
	// route selects another pool for a statement, or nil for the primary; optional.
	route bun.ConnResolver
}

func newConnections(capacity int) *admission.Gate {
	return admission.New(admission.Config{
		Name: "operations", Capacity: int64(max(1, capacity)), Share: int64(max(1, capacity/2)),
		Waiting: maxOwnWaiting, Queue: maxAllWaiting, MaxWait: maxTurnWait,
	})
}

// open returns a bun.DB on the primary pool whose connections are divided between owners.
func (f fairness) open(dialect schema.Dialect) *bun.DB {
	return bun.NewDB(f.primary, exactJSON{dialect}, bun.WithConnResolver(f)).WithQueryHook(turns{})
}

// turn is a statement's use of a connection.
type turn struct {
	owner string
	leave func() // nil until it was admitted
}

// turnKey is the context key of a turn.
type turnKey struct{}

// turns ends the turn of each statement.
type turns struct{}

// BeforeQuery implements bun.QueryHook. Statements of a transaction have the transaction's turn.
func (turns) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	owner, _ := ctx.Value(ownerKey{}).(string)
	if owner == "" || ctx.Value(inTx{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, turnKey{}, &turn{owner: owner})
}

// AfterQuery implements bun.QueryHook.
func (turns) AfterQuery(ctx context.Context, _ *bun.QueryEvent) {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok && t.leave != nil {
		t.leave()
	}
}

// ResolveConn implements bun.ConnResolver.
func (f fairness) ResolveConn(ctx context.Context, query bun.Query) bun.IConn {
	var pool bun.IConn = f.primary
	if f.route != nil {
		if other := f.route.ResolveConn(ctx, query); other != nil {
			pool = other
		}
	}
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return pool
	}
	gate := f.writes
	if _, reads := query.(*bun.SelectQuery); reads {
		gate = f.reads
	}
	return turnConn{pool, gate, t}
}

// Close implements bun.ConnResolver.
func (f fairness) Close() error {
	if f.route == nil {
		return nil
	}
	return f.route.Close()
}

// turnConn runs a statement when it is its owner's turn.
type turnConn struct {
	bun.IConn
	gate *admission.Gate
	turn *turn
}

// QueryContext implements bun.IConn.
func (c turnConn) QueryContext(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	if c.turn.leave, err = c.gate.Enter(ctx, c.turn.owner, 1); err != nil {
		return nil, err
	}
	return c.IConn.QueryContext(ctx, query, args...)
}

// ExecContext implements bun.IConn.
func (c turnConn) ExecContext(ctx context.Context, query string, args ...any) (result sql.Result, err error) {
	if c.turn.leave, err = c.gate.Enter(ctx, c.turn.owner, 1); err != nil {
		return nil, err
	}
	return c.IConn.ExecContext(ctx, query, args...)
}

// QueryRowContext implements bun.IConn. A row cannot carry the gate's error: its statement has timed
// out.
func (c turnConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	var err error
	if c.turn.leave, err = c.gate.Enter(ctx, c.turn.owner, 1); err != nil {
		late, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
		defer cancel()
		ctx = late
	}
	return c.IConn.QueryRowContext(ctx, query, args...)
}

// enterTx waits for the turn of a transaction.
func (d *DB) enterTx(ctx context.Context) (leave func(), err error) {
	owner, _ := ctx.Value(ownerKey{}).(string)
	if owner == "" || d.fair.writes == nil {
		return func() {}, nil
	}
	return d.fair.writes.Enter(ctx, owner, 1)
}
