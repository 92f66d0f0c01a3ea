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
	Reads, Writes *Queue
	Primary       *sql.DB
	// Route selects another pool for a statement, or nil for the primary; optional.
	Route bun.ConnResolver
}

// NewPoolQueue returns a queue for the connections of a pool, without those in reserve.
func NewPoolQueue(pool int) *Queue { return NewStatementQueue(pool - pool/reserveDivisor) }

// NewStatementQueue returns a queue for as many statements or transactions at once.
func NewStatementQueue(capacity int) *Queue {
	return New(Config{
		Name: "operations", Capacity: int64(max(1, capacity)), Share: int64(max(1, capacity/2)),
		Waiting: maxOwnWaiting, AllWaiting: maxAllWaiting, MaxWait: maxTurnWait,
	})
}

// Open returns a bun.DB on the primary pool whose connections are divided between owners.
func (t Turns) Open(dialect schema.Dialect) *bun.DB {
	return bun.NewDB(t.Primary, dialect, bun.WithConnResolver(t)).WithQueryHook(hook{})
}

// statement is a use of a connection.
type statement struct {
	owner string
	turn  *Turn // nil until it waits for one
}

// statementKey is the context key of a statement.
type statementKey struct{}

// hook ends the turn of each statement.
type hook struct{}

// BeforeQuery implements bun.QueryHook.
func (hook) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	owner, _ := ctx.Value(ownerKey{}).(string)
	if owner == "" {
		return ctx
	}
	return context.WithValue(ctx, statementKey{}, &statement{owner: owner})
}

// AfterQuery implements bun.QueryHook.
func (hook) AfterQuery(ctx context.Context, _ *bun.QueryEvent) {
	if s, ok := ctx.Value(statementKey{}).(*statement); ok && s.turn != nil {
		s.turn.Leave()
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
	own, ok := ctx.Value(statementKey{}).(*statement)
	if !ok {
		return pool
	}
	queue := t.Writes
	if _, reads := query.(*bun.SelectQuery); reads {
		queue = t.Reads
	}
	return turnConn{pool, queue, own}
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
	queue *Queue
	own   *statement
}

func (c turnConn) enter(ctx context.Context) (err error) {
	c.own.turn, err = c.queue.Enter(ctx, 1, c.own.owner)
	return err
}

// QueryContext implements bun.IConn.
func (c turnConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	return c.IConn.QueryContext(ctx, query, args...)
}

// ExecContext implements bun.IConn.
func (c turnConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	return c.IConn.ExecContext(ctx, query, args...)
}

// QueryRowContext implements bun.IConn. A row cannot carry the queue's error: its statement has
// timed out.
func (c turnConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := c.enter(ctx); err != nil {
		late, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
		defer cancel()
		ctx = late
	}
	return c.IConn.QueryRowContext(ctx, query, args...)
}

// EnterTx waits for the turn of a transaction in Reads or Writes. The context is for its
// statements, which have the same turn.
func EnterTx(ctx context.Context, queue *Queue) (within context.Context, leave func(), err error) {
	owner, _ := ctx.Value(ownerKey{}).(string)
	if owner == "" || queue == nil {
		return ctx, func() {}, nil
	}
	turn, err := queue.Enter(ctx, 1, owner)
	return Unowned(ctx), turn.Leave, err
}
