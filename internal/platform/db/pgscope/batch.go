package pgscope

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// scopeStatement is the name of the prepared statement that sets the scope of a transaction.
const scopeStatement = "linkforge_scope"

// setScope sets the scope of a transaction. Statements of Bind are planned once, for all values:
// PostgreSQL would otherwise weigh a plan for the values of each call. The transaction of a process
// that hangs ends: others wait for its locks, and readers of events for the oldest transaction.
const setScope = "SELECT set_config('role', $1, true), set_config('linkforge.workspace', $2, true), " +
	"set_config('linkforge.account', $3, true), set_config('statement_timeout', $4, true), " +
	"set_config('lock_timeout', $5, true), set_config('plan_cache_mode', 'force_generic_plan', true), " +
	"set_config('idle_in_transaction_session_timeout', '30s', true)"

// beginStatements is the number of statements that begin a transaction: BEGIN and that of the scope.
const beginStatements = 2

// ErrScope is the error of a statement that did not run because its scope could not be entered.
// That of PostgreSQL says nothing of the values of the statement.
var ErrScope = errors.New("entering a scope")

// enter queues the statement that enters a scope.
func (c *Conn) enter(b *pgx.Batch, wanted Scope) {
	waits := c.timeouts
	if wanted.Role == System || wanted.Role == Owner {
		waits = Timeouts{}
	}
	if wanted.Brief && waits.List != 0 {
		waits.Statement = waits.List
	}
	if wanted.ShortLockTimeout {
		waits.Lock = shortLockTimeout
	}
	milliseconds := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	b.Queue(scopeStatement, wanted.Role, wanted.Workspace, wanted.Account, milliseconds(waits.Statement),
		milliseconds(waits.Lock))
}

// batch returns what precedes the next statement in its round trip: what is pending in the
// transaction, and else the scope of the context. All are one transaction: without the scope the
// statement does not run.
func (c *Conn) batch(ctx context.Context) *pgx.Batch {
	b := &pgx.Batch{}
	switch wanted := Of(ctx); {
	case c.tx != nil:
		b, c.tx.pending = c.tx.pending, b
	case wanted.Role != Owner: // some of the owner's statements cannot run in a transaction
		c.enter(b, wanted)
	}
	return b
}

// send sends statements, and returns the results of the last n, after those of the others.
func (c *Conn) send(ctx context.Context, b *pgx.Batch, n int) (pgx.BatchResults, error) {
	if c.tx != nil {
		c.tx.hasBegun = true
	}
	own := c.Conn.Conn()
	r := own.SendBatch(ctx, b)
	for _, q := range b.QueuedQueries[:b.Len()-n] {
		_, err := r.Exec()
		if err == nil {
			continue
		}
		if q.SQL == scopeStatement {
			err = fmt.Errorf("%w: %w", ErrScope, err)
		}
		err = closeResults(r, err)
		if own.PgConn().TxStatus() == 'T' { // nothing was sent, also not what was deferred: a value cannot be encoded
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout) // or the context has ended
			defer cancel()
			_, _ = own.Exec(ctx, "ROLLBACK")
		}
		return nil, err
	}
	return r, nil
}

// closeResults reads all further results. It returns the first error. That is ErrBadConn if statements
// outside of a transaction have not reached the server as a whole, so that it commits none.
func closeResults(r pgx.BatchResults, err error) error {
	err = cmp.Or(err, r.Close())
	network, ok := errors.AsType[*net.OpError](err)
	if pgconn.SafeToRetry(err) || ok && network.Op == "write" {
		return driver.ErrBadConn
	}
	return err
}

// flush begins the transaction, and executes the deferred statements.
func (c *Conn) flush(ctx context.Context) error {
	if c.tx == nil || c.tx.pending.Len() == 0 {
		return nil
	}
	r, err := c.send(ctx, c.batch(ctx), 0)
	if err != nil {
		return err
	}
	return closeResults(r, nil)
}

// run runs a statement, and returns its rows.
func (c *Conn) run(ctx context.Context, text string, values []any) (*rows, error) {
	b := c.batch(ctx)
	b.Queue(text, values...)
	r, err := c.send(ctx, b, 1)
	if err != nil {
		return nil, err
	}
	return nextRows(r, true)
}

// prepareInScope prepares a statement, whose tables may be locked, with the timeouts of its scope.
func (c *Conn) prepareInScope(ctx context.Context, text string) error {
	if c.tx == nil {
		tx, err := c.BeginTx(ctx, driver.TxOptions{})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // the statement remains
	}
	if err := c.flush(ctx); err != nil {
		return err
	}
	prepared, err := c.Conn.Conn().Prepare(ctx, text, text)
	if err == nil {
		prepared.Fields = nil // so pgx requests text, which database/sql knows also for arrays
		c.prepared[text] = true
	}
	return err
}

// ahead has the results of statements that were sent ahead, which are run next in the same order.
type ahead struct {
	results pgx.BatchResults
	texts   []string
}

// SendAhead sends prepared statements of a transaction, which must be run next, in the same order.
func (c *Conn) SendAhead(ctx context.Context, texts []string, values [][]any) error {
	for i, text := range texts {
		if _, err := c.prepare(Bind(ctx, values[i]...), text, nil); err != nil {
			return c.explain(ctx, err)
		}
	}
	b := c.batch(ctx)
	for i, text := range texts {
		b.Queue(text, values[i]...)
	}
	r, err := c.send(ctx, b, len(texts))
	if err != nil {
		return c.explain(ctx, err)
	}
	c.ahead = &ahead{r, texts}
	return nil
}

// queryAhead returns the rows of the next statement that was sent ahead.
func (c *Conn) queryAhead(text string) (driver.Rows, error) {
	a := c.ahead
	if text != a.texts[0] {
		return nil, c.endAhead(errors.New("a statement is not the next one that was sent ahead"))
	}
	a.texts = a.texts[1:]
	isLast := len(a.texts) == 0
	found, err := nextRows(a.results, isLast)
	if isLast || err != nil {
		c.ahead = nil
	}
	return found, err
}

// endAhead skips the results that were not read.
func (c *Conn) endAhead(err error) error {
	a := c.ahead
	if c.ahead = nil; a == nil {
		return err
	}
	return closeResults(a.results, err)
}
