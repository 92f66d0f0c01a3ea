package admission

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
)

const (
	// reserveDivisor divides the pool: a fifth of the connections is for statements without an
	// owner.
	reserveDivisor = 5
	// maxTurnWait bounds the wait of a statement for its owner's turn.
	maxTurnWait = 5 * time.Second
	// maxOwnWaiting bounds the waiting statements of one owner, maxAllWaiting those of all.
	maxOwnWaiting, maxAllWaiting = 500, 5000
)

// ownerKey is the context key of the owner of statements.
type ownerKey struct{}

// OwnedBy returns a context whose statements and transactions take turns with those of other
// owners: an owner, such as an account, uses half of the connections at most. Without an owner
// statements take no turns.
func OwnedBy(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// Unowned returns a context whose statements take no turns, for statements that several callers
// share.
func Unowned(ctx context.Context) context.Context { return OwnedBy(ctx, "") }

// Turns divides the connections of a database between owners, such as accounts: statements and
// transactions of one owner wait for their turn, so that those of others find a connection.
// Statements without an owner, such as those of redirects, take no turns, and a part of the
// connections is theirs alone. The zero Turns admits all transactions.
type Turns struct {
	// Reads admits single SELECT statements and transactions that only read, Writes all others. If the same
	// connections serve both, they are the same.
	Reads, Writes *Gate
	Primary       *sql.DB
	// Route selects another pool for a statement, or nil for the primary; optional.
	Route bun.ConnResolver
}

// NewPoolGate returns a gate for the connections of a pool, without those in reserve.
func NewPoolGate(pool int) *Gate { return NewGate(pool - pool/reserveDivisor) }

// NewGate returns a gate for as many statements or transactions at once.
func NewGate(capacity int) *Gate {
	return New(Config{
		Name: "operations", Capacity: int64(max(1, capacity)), Share: int64(max(1, capacity/2)),
		Waiting: maxOwnWaiting, Queue: maxAllWaiting, MaxWait: maxTurnWait,
	})
}

// Open returns a bun.DB on the primary pool whose connections are divided between owners.
func (t Turns) Open(dialect schema.Dialect) *bun.DB {
	return bun.NewDB(t.Primary, dialect, bun.WithConnResolver(t)).WithQueryHook(hook{})
}

// turn is a statement's use of a connection.
type turn struct {
	owner string
	leave func() // nil until it was admitted
}

// turnKey is the context key of a turn.
type turnKey struct{}

// hook ends the turn of each statement.
type hook struct{}

// BeforeQuery implements bun.QueryHook.
func (hook) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	owner, _ := ctx.Value(ownerKey{}).(string)
	if owner == "" {
		return ctx
	}
	return context.WithValue(ctx, turnKey{}, &turn{owner: owner})
}

// AfterQuery implements bun.QueryHook.
func (hook) AfterQuery(ctx context.Context, _ *bun.QueryEvent) {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok && t.leave != nil {
		t.leave()
	}
}

// ResolveConn implements bun.ConnResolver.
func (t Turns) ResolveConn(ctx context.Context, query bun.Query) bun.IConn {
	var pool bun.IConn = t.Primary
	if t.Route != nil {
		if other := t.Route.ResolveConn(ctx, query); other != nil {
			pool = other
		}
	}
	own, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return pool
	}
	gate := t.Writes
	if _, reads := query.(*bun.SelectQuery); reads {
		gate = t.Reads
	}
	return turnConn{pool, gate, own}
}

// Close implements bun.ConnResolver.
func (t Turns) Close() error {
	if t.Route == nil {
		return nil
	}
	return t.Route.Close()
}

// turnConn runs a statement when it is its owner's turn.
type turnConn struct {
	bun.IConn
	gate *Gate
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

// QueryRowContext implements bun.IConn. A row cannot carry the gate's error: its statement has
// timed out.
func (c turnConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	var err error
	if c.turn.leave, err = c.gate.Enter(ctx, c.turn.owner, 1); err != nil {
		late, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
		defer cancel()
		ctx = late
	}
	return c.IConn.QueryRowContext(ctx, query, args...)
}

// Enter waits for the turn of a transaction. The context is for its statements, which have the same
// turn.
func (t Turns) Enter(ctx context.Context) (within context.Context, leave func(), err error) {
	return enter(ctx, t.Writes)
}

// EnterRead is Enter for a transaction that only reads.
func (t Turns) EnterRead(ctx context.Context) (within context.Context, leave func(), err error) {
	return enter(ctx, t.Reads)
}

func enter(ctx context.Context, gate *Gate) (within context.Context, leave func(), err error) {
	owner, _ := ctx.Value(ownerKey{}).(string)
	if owner == "" || gate == nil {
		return ctx, func() {}, nil
	}
	leave, err = gate.Enter(ctx, owner, 1)
	return Unowned(ctx), leave, err
}
