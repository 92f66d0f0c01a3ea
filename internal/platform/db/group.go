package db

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/batcher"
)

// maxGroup is how many transactions of SQLite share a commit.
const maxGroup = 64

// groups runs the transactions of SQLite, which has one writer: transactions that wait while others
// run share a transaction of SQLite, and with it the wait for the disk. Each has a savepoint, so
// that it is undone alone. All return after the commit.
type groups = batcher.Batcher[struct{}, *grouped, struct{}]

// grouped is a transaction of a group.
type grouped struct {
	ctx context.Context
	f   func(ctx context.Context, tx bun.Tx) error
	// isTaken is set by who takes the transaction: the group, to run it, or its caller, to leave.
	isTaken atomic.Bool
	// done is closed when err, or what f has panicked with, is set.
	done     chan struct{}
	err      error
	panicked any
}

// errGroupAborted is the outcome of a transaction when SQLite has rolled back the whole group,
// because of a statement of another one. It runs again.
var errGroupAborted = errors.New("the transaction of the group was aborted")

// WaitingTransactions returns how many transactions wait for the next group on SQLite, for tests.
func (d *DB) WaitingTransactions() int { return d.groups.Waiting(struct{}{}) }

// runInGroup runs f in a group. When the context ends, it returns early unless f has begun.
func (d *DB) runInGroup(ctx context.Context, f func(ctx context.Context, tx bun.Tx) error) error {
	g := &grouped{ctx: ctx, f: f, done: make(chan struct{})}
	if _, err := d.groups.Do(ctx, struct{}{}, g, d.runGroup); err != nil && g.isTaken.CompareAndSwap(false, true) {
		return err
	}
	<-g.done
	if g.panicked != nil {
		panic(g.panicked)
	}
	return g.err
}

// runGroup runs the transactions of a group one after the other. It returns an error if their
// common transaction cannot begin.
func (d *DB) runGroup(ctx context.Context, group []*grouped) (struct{}, error) {
	conn, err := d.Conn(ctx)
	if err != nil {
		return struct{}{}, err
	}
	defer conn.Close()
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil) // each statement has the context of its caller
	if err != nil {
		return struct{}{}, err
	}
	outcome := errGroupAborted // unless all return: a test may end the goroutine
	begun := make([]*grouped, 0, len(group))
	defer func() {
		if outcome != nil {
			_ = tx.Rollback()
		}
		for _, g := range begun {
			g.end(outcome)
		}
	}()
	var lost error
	for _, g := range group {
		if !g.isTaken.CompareAndSwap(false, true) {
			continue
		}
		begun = append(begun, g)
		switch {
		case lost != nil: // the rest run again
		case len(group) == 1:
			lost = g.runAlone(tx)
		default:
			lost = g.runInSavepoint(tx)
		}
	}
	if outcome = lost; lost == nil {
		outcome = tx.Commit()
	}
	return struct{}{}, nil
}

// end sends the caller the outcome of the transaction: as the group has, unless it has failed
// itself.
func (g *grouped) end(group error) {
	if g.err == nil && g.panicked == nil {
		g.err = group
	}
	close(g.done)
}

// runAlone sets the outcome of f, without a savepoint. It returns an error if there is nothing to
// commit.
func (g *grouped) runAlone(tx bun.Tx) error {
	if g.err = g.call(g.ctx, tx); g.panicked != nil {
		return errGroupAborted
	}
	return g.err
}

// runInSavepoint sets the outcome of f. It returns errGroupAborted if the group cannot continue.
// The end of the context does not interrupt statements, because SQLite would roll back the whole
// group.
func (g *grouped) runInSavepoint(tx bun.Tx) error {
	ctx := context.WithoutCancel(g.ctx)
	if _, err := tx.ExecContext(ctx, "SAVEPOINT one"); err != nil {
		return errGroupAborted
	}
	g.err = g.call(ctx, tx)
	end := "RELEASE one"
	if g.err != nil || g.panicked != nil {
		end = "ROLLBACK TO one; RELEASE one"
	}
	if _, err := tx.ExecContext(ctx, end); err != nil {
		return errGroupAborted
	}
	return nil
}

// call calls f, and notes a panic for the goroutine of its caller. A caller who has left gets
// nothing written.
func (g *grouped) call(ctx context.Context, tx bun.Tx) error {
	defer func() { g.panicked = recover() }()
	if err := g.ctx.Err(); err != nil {
		return err
	}
	return cmp.Or(g.f(ctx, tx), g.ctx.Err())
}
