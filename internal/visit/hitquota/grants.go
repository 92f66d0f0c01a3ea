package hitquota

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/batcher"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// grantBatch bounds how many visitors share a statement.
	grantBatch = 256
	// grantDeadline bounds a statement, and how long a visitor waits for it.
	grantDeadline = 2 * time.Second
	// recountBatch is how many links are recounted in one statement.
	recountBatch = 500
)

// Grants counts the redirects of its subjects, links and targets that have a maximum, in the table
// grants. No user can change the column granted, and of existing rows only this package does.
type Grants struct {
	// DB is the database.
	DB *db.DB
	// Log receives failures to return grants.
	Log *slog.Logger

	calls    batcher.Batcher[struct{}, *grantRequest, struct{}]
	alone    batcher.Batcher[string, *grantRequest, struct{}] // of one subject, after a shared call has failed
	checks   batcher.Batcher[struct{}, string, []string]
	granting sync.WaitGroup
	open     atomic.Int64  // grants that are being taken, or are neither committed nor released
	wake     chan struct{} // a grant waits to be returned
	mu       sync.Mutex
	owed     map[string]int64 // grants to return, by subject
}

// NewGrants returns the grants of a process. Run returns unused ones.
func NewGrants(d *db.DB, log *slog.Logger) *Grants {
	g := &Grants{DB: d, Log: log, wake: make(chan struct{}, 1), owed: map[string]int64{}}
	g.calls.MaxBatch, g.calls.MaxRunning = grantBatch, maxTakes
	g.alone.MaxBatch, g.alone.Serial = grantBatch, true
	g.checks.MaxBatch, g.checks.MaxRunning = grantBatch, maxTakes
	return g
}

// Grant is one redirect that a link or a target has granted. The zero Grant needs no release.
type Grant struct {
	grants  *Grants
	subject string
}

// Commit states that the click has been recorded: a later Release does nothing.
func (g *Grant) Commit() { g.end(0) }

// Release returns the grant unused.
func (g *Grant) Release() { g.end(1) }

func (g *Grant) end(unused int64) {
	if g.grants == nil {
		return
	}
	g.grants.queueReturn(g.subject, unused)
	g.grants.open.Add(-1)
	g.grants = nil
}

// OutstandingGrants is how many grants have no click yet: those of redirects in flight, and unused
// ones that wait to be returned. clicks <= granted <= clicks + those outstanding on all nodes, also
// after crashes, except that grants stay granted if the response to their statement was lost.
func (g *Grants) OutstandingGrants() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.open.Load()
	for _, owed := range g.owed {
		n += owed
	}
	return n
}

// Grant takes one of the remaining redirects of a link or target; false means that none is left.
// Concurrent calls share a statement. That of a caller who has gone continues, and its grant
// returns.
func (g *Grants) Grant(ctx context.Context, subject string) (Grant, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, grantDeadline)
	defer cancel()
	answers := make(chan *grantRequest)
	g.open.Add(1)
	g.granting.Go(func() {
		system, w := db.AsSystem(context.WithoutCancel(ctx)), &grantRequest{ctx: ctx, subject: subject}
		_, err := g.calls.Do(system, struct{}{}, w, g.grantAll)
		w.err = cmp.Or(err, w.err)
		// another subject may be the reason
		retry := db.IsLockTimeout(w.err) || w.err != nil && !errs.Is(w.err, errs.Unavailable)
		for retry && ctx.Err() == nil {
			w.err = nil
			_, err = g.alone.Do(system, subject, w, g.grantAll)
			w.err = cmp.Or(err, w.err)
			retry = db.IsLockTimeout(w.err)
		}
		select {
		case answers <- w:
			if w.isGranted {
				return // the visitor ends it
			}
		case <-ctx.Done():
			if w.isGranted {
				g.queueReturn(subject, 1)
			}
		}
		g.open.Add(-1)
	})
	select {
	case w := <-answers:
		if !w.isGranted {
			return Grant{}, false, w.err
		}
		return Grant{g, subject}, true, nil
	case <-ctx.Done():
		return Grant{}, false, fmt.Errorf("waiting for a grant: %w", ctx.Err())
	}
}

// grantRequest is the request of a visitor for a grant, with the context of the visitor and the outcome.
type grantRequest struct {
	ctx       context.Context
	subject   string
	isGranted bool
	err       error
}

// change is a number of grants of a subject.
type change struct {
	SubjectID string
	N         int64
}

// update prepares an update of the subjects in a map, whose numbers are change.n; the caller adds
// what to set.
func (g *Grants) update(conn bun.IDB, numbers map[string]int64) *bun.UpdateQuery {
	changes := make([]change, 0, len(numbers))
	for _, subject := range slices.Sorted(maps.Keys(numbers)) {
		changes = append(changes, change{subject, numbers[subject]})
	}
	return conn.NewUpdate().With("change", g.DB.NewValues(&changes)).Table("grants", "change").
		Where("grants.subject_id = change.subject_id")
}

// grantAll takes a grant for each visitor who still waits. A conditional statement decides; for
// subjects with fewer grants left it halves the number, until one of them has none. If a later
// statement fails, the grants of earlier ones hold. The context has the scope of the system.
// PostgreSQL itself ends the wait for a row: if only the context ended, PostgreSQL would keep
// waiting, and grant when the row is free.
func (g *Grants) grantAll(ctx context.Context, requests []*grantRequest) (none struct{}, _ error) {
	ctx, cancel := context.WithTimeout(db.WithShortLockTimeout(ctx), grantDeadline)
	defer cancel()
	requests = slices.DeleteFunc(requests, func(w *grantRequest) bool { return w.ctx.Err() != nil })
	wanted, granted := map[string]int64{}, map[string]int64{}
	for _, w := range requests {
		wanted[w.subject]++
	}
	var failure error // of the subjects in step
	step := maps.Clone(wanted)
	for len(step) > 0 {
		given, err := g.add(ctx, g.DB, step)
		if err != nil {
			failure = fmt.Errorf("granting redirects: %w", err)
			break
		}
		for subject, n := range step {
			if slices.Contains(given, subject) {
				granted[subject] += n
				n = min(n, wanted[subject]-granted[subject])
			} else {
				n /= 2
			}
			if step[subject] = n; n == 0 {
				delete(step, subject)
			}
		}
	}
	for _, w := range requests {
		if w.isGranted = granted[w.subject] > 0; w.isGranted {
			granted[w.subject]--
		} else if step[w.subject] > 0 {
			w.err = failure
		}
	}
	return none, nil
}

// add adds grants to the subjects whose maximum permits all of them, and returns these.
func (g *Grants) add(ctx context.Context, conn bun.IDB, grants map[string]int64) (given []string, err error) {
	err = g.update(conn, grants).Set("granted = granted + change.n").
		Where("granted + change.n <= max_clicks OR max_clicks IS NULL OR change.n < 0").
		Returning("grants.subject_id").Scan(ctx, &given)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return given, err
}

func (g *Grants) queueReturn(subject string, n int64) {
	if n == 0 {
		return
	}
	g.mu.Lock()
	g.owed[subject] += n
	g.mu.Unlock()
	poll.Signal(g.wake)
}

// Run returns unused grants until the context ends, and then the remaining ones.
func (g *Grants) Run(ctx context.Context) error {
	failures := poll.Failures{Log: g.Log, Message: "returning grants failed"}
	for ctx.Err() == nil {
		select {
		case <-g.wake:
			err := g.returnOwed(ctx)
			if failures.Report(ctx, err); err != nil && poll.Wait(ctx, time.Second) == nil {
				poll.Signal(g.wake)
			}
		case <-ctx.Done():
		}
	}
	g.granting.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnDeadline)
	defer cancel()
	failures.Report(ctx, g.returnOwed(ctx))
	return nil
}

// returnOwed returns the grants. Those of a commit without an answer may have returned: they stay
// granted, because a second return would exceed a maximum.
func (g *Grants) returnOwed(ctx context.Context) error {
	g.mu.Lock()
	owed := make(map[string]int64, len(g.owed))
	for subject, n := range g.owed {
		owed[subject] = -n
	}
	g.mu.Unlock()
	if len(owed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), grantDeadline)
	defer cancel()
	isSent := false
	err := g.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := g.add(ctx, tx, owed)
		isSent = err == nil
		return err
	})
	if isSent {
		g.settle(owed)
	}
	return err
}

// settle subtracts returned grants, which are negative, from the owed ones.
func (g *Grants) settle(returned map[string]int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for subject, n := range returned {
		if g.owed[subject] += n; g.owed[subject] == 0 {
			delete(g.owed, subject)
		}
	}
}

// Exhausted reports that a link with maxClicks has none left to grant. Concurrent calls share a
// statement.
func (g *Grants) Exhausted(ctx context.Context, linkID string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, grantDeadline)
	defer cancel()
	exhausted, err := g.checks.Do(ctx, struct{}{}, linkID, g.exhausted)
	if err != nil {
		return false, fmt.Errorf("reading what is left of a link: %w", err)
	}
	return slices.Contains(exhausted, linkID), nil
}

func (g *Grants) exhausted(ctx context.Context, linkIDs []string) (exhausted []string, err error) {
	ctx, cancel := context.WithTimeout(db.AsResolver(ctx), grantDeadline)
	defer cancel()
	err = g.DB.NewSelect().Table("grants").Column("subject_id").Where("subject_id IN (?)", bun.In(linkIDs)).
		Where("granted >= max_clicks").Scan(ctx, &exhausted)
	return exhausted, err
}

// RecountGrants sets the granted clicks of links with maxClicks to the clicks that they have. It is
// for a restored database.
func (g *Grants) RecountGrants(ctx context.Context) error { return g.recount(ctx, "<>") }

// RaiseGrants raises the granted clicks of links with maxClicks to the clicks that they have.
// Clicks that were in click logs when the maximum was set or the database was restored exceed the
// granted ones, once they are ingested.
func (g *Grants) RaiseGrants(ctx context.Context) error { return g.recount(ctx, "<") }

// recount sets the granted clicks of links with maxClicks that compare so to the clicks that they
// have. It only reads if there are none.
func (g *Grants) recount(ctx context.Context, operator bun.Safe) error {
	ctx = db.AsSystem(ctx)
	for n := recountBatch; n == recountBatch; {
		var changes []change
		err := g.DB.NewSelect().Table("grants").Column("grants.subject_id").
			ColumnExpr("coalesce(total.clicks, 0) - clicks_before AS n").
			Join("LEFT JOIN click_totals AS total ON total.subject_id = grants.subject_id").
			Where("grants.subject_id = link_id").Where("max_clicks IS NOT NULL").
			Where("granted ? coalesce(total.clicks, 0) - clicks_before", operator).
			Order("grants.subject_id").Limit(recountBatch).Scan(ctx, &changes)
		if n = len(changes); err != nil || n == 0 {
			return err
		}
		counts := make(map[string]int64, n)
		for _, c := range changes {
			counts[c.SubjectID] = c.N
		}
		if _, err := g.update(g.DB, counts).Set("granted = change.n").Where("granted ? change.n", operator).
			Exec(ctx); err != nil {
			return fmt.Errorf("counting what links have granted: %w", err)
		}
	}
	return nil
}
