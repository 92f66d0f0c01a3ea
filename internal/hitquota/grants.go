package hitquota

import (
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

	"github.com/linkforge/linkforge/internal/batcher"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/poll"
)

const (
	// grantBatch bounds how many visitors share a statement.
	grantBatch = 256
	// grantDeadline bounds a statement, and how long a visitor waits for it.
	grantDeadline = 2 * time.Second
	// recountBatch is how many links RecountGrants updates in one transaction.
	recountBatch = 500
)

// granted is a table whose rows count grants. No user can change the column granted, and only this
// package does.
type granted struct{ table, id string }

// The tables: links with maxClicks, and targets of rules that have a maximum of their own.
var (
	ofLinks   = granted{"links", "id"}
	ofTargets = granted{"target_grants", "target_id"}
)

func tableOf(subject string) granted {
	if id.PrefixOf(subject) == id.Target {
		return ofTargets
	}
	return ofLinks
}

// updateGranted prepares an update of granted; the caller adds conditions. Nothing else in this package
// writes to links.
func updateGranted(conn bun.IDB, of granted, expression string, args ...any) *bun.UpdateQuery {
	q := conn.NewUpdate().Set("granted = "+expression, args...)
	if of == ofTargets {
		return q.Table("target_grants")
	}
	return q.Table("links")
}

// Grants counts the redirects of links and of targets that have a maximum, in their rows.
type Grants struct {
	// DB is the database, Clicks counts the clicks in it.
	DB     *db.DB
	Clicks Clicks
	// Log receives failures to return grants.
	Log *slog.Logger

	calls    batcher.Batcher[granted, wish, *shares]
	alone    batcher.Batcher[string, wish, *shares] // of one subject, after a shared call has failed
	checks   batcher.Batcher[struct{}, string, []string]
	granting sync.WaitGroup
	open     atomic.Int64  // grants that are being taken, or are neither committed nor released
	wake     chan struct{} // a grant is to be returned
	mu       sync.Mutex
	owed     map[string]int64 // grants to return, by subject
}

// NewGrants returns the grants of a process. Run returns unused ones.
func NewGrants(d *db.DB, clicks Clicks, log *slog.Logger) *Grants {
	g := &Grants{DB: d, Clicks: clicks, Log: log, wake: make(chan struct{}, 1), owed: map[string]int64{}}
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
	g.grants.giveBack(g.subject, unused)
	g.grants.open.Add(-1)
	g.grants = nil
}

// OutstandingGrants is how many grants have no click yet: those of redirects in flight, and unused ones that are
// to be returned. clicks <= granted <= clicks + those outstanding on all nodes, also after crashes, except that
// grants stay granted if the answer to their statement was lost.
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
// Concurrent calls share a statement. That of a caller who has gone continues, and its grant returns.
func (g *Grants) Grant(ctx context.Context, subject string) (Grant, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, grantDeadline)
	defer cancel()
	type answer struct {
		ok  bool
		err error
	}
	answers := make(chan answer)
	g.open.Add(1)
	g.granting.Go(func() {
		system := db.AsSystem(context.WithoutCancel(ctx))
		one := wish{ctx, subject}
		granted, err := g.calls.Do(system, tableOf(subject), one, g.grantAll)
		ok, err := granted.take(subject, err)
		retry := db.IsLockTimeout(err) || err != nil && !errs.Is(err, errs.Unavailable) // another subject may be the reason
		for retry && ctx.Err() == nil {
			granted, err = g.alone.Do(system, subject, one, g.grantAll)
			ok, err = granted.take(subject, err)
			retry = db.IsLockTimeout(err)
		}
		select {
		case answers <- answer{ok, err}:
			if ok {
				return // the visitor ends it
			}
		case <-ctx.Done():
			if ok {
				g.giveBack(subject, 1)
			}
		}
		g.open.Add(-1)
	})
	select {
	case a := <-answers:
		if !a.ok {
			return Grant{}, false, a.err
		}
		return Grant{g, subject}, true, nil
	case <-ctx.Done():
		return Grant{}, false, fmt.Errorf("waiting for a grant: %w", ctx.Err())
	}
}

// wish is the request of a visitor for a grant, with the context of the visitor.
type wish struct {
	ctx     context.Context
	subject string
}

// shares are the grants of a call, which its callers divide. If a statement has failed, err is the outcome of the
// subjects that were still asked for more.
type shares struct {
	mu     sync.Mutex
	left   map[string]int64
	failed map[string]int64
	err    error
}

// take takes a grant of the subject from the outcome of a call.
func (s *shares) take(subject string, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left[subject] > 0 {
		s.left[subject]--
		return true, nil
	}
	if s.failed[subject] > 0 {
		return false, s.err
	}
	return false, nil
}

// change is a number of grants to add to a subject.
type change struct {
	SubjectID string
	N         int64
}

// grantAll takes a grant for each visitor who still waits. A conditional statement decides; subjects that have fewer
// grants left are asked for half as many, until one of them has none. If a later statement fails, what the earlier ones
// have granted holds. The context has the scope of the system. PostgreSQL itself ends the wait for a row: it would go
// on when only the context ends, and grant when the row is free.
func (g *Grants) grantAll(ctx context.Context, wishes []wish) (*shares, error) {
	ctx, cancel := context.WithTimeout(db.WithShortLockTimeout(ctx), grantDeadline)
	defer cancel()
	wanted, granted := map[string]int64{}, &shares{left: map[string]int64{}}
	for _, w := range wishes {
		if w.ctx.Err() == nil {
			wanted[w.subject]++
		}
	}
	step := maps.Clone(wanted)
	for len(step) > 0 {
		given, err := g.add(ctx, g.DB, step)
		if err != nil {
			granted.failed, granted.err = step, fmt.Errorf("granting redirects: %w", err)
			break
		}
		for subject, n := range step {
			if slices.Contains(given, subject) {
				granted.left[subject] += n
				n = min(n, wanted[subject]-granted.left[subject])
			} else {
				n /= 2
			}
			if step[subject] = n; n == 0 {
				delete(step, subject)
			}
		}
	}
	return granted, nil
}

// add adds grants to the subjects of a table whose maximum permits all of them, and returns these.
func (g *Grants) add(ctx context.Context, conn bun.IDB, grants map[string]int64) (given []string, err error) {
	changes, of := make([]change, 0, len(grants)), granted{}
	for _, subject := range slices.Sorted(maps.Keys(grants)) {
		changes, of = append(changes, change{subject, grants[subject]}), tableOf(subject)
	}
	err = updateGranted(conn, of, "granted + change.n").With("change", g.DB.NewValues(&changes)).Table("change").
		Where("? = change.subject_id", bun.Ident(of.table+"."+of.id)).
		Where("granted + change.n <= max_clicks OR max_clicks IS NULL OR change.n < 0").
		Returning("?", bun.Ident(of.table+"."+of.id)).Scan(ctx, &given)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return given, err
}

func (g *Grants) giveBack(subject string, n int64) {
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

// returnOwed returns the grants to both tables. Those of a commit without an answer may have returned: they stay
// granted, because a second return would exceed a maximum.
func (g *Grants) returnOwed(ctx context.Context) (err error) {
	g.mu.Lock()
	owed := map[granted]map[string]int64{ofLinks: {}, ofTargets: {}}
	for subject, n := range g.owed {
		owed[tableOf(subject)][subject] = -n
	}
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), grantDeadline)
	defer cancel()
	for _, subjects := range owed {
		if len(subjects) == 0 {
			continue
		}
		isSent := false
		problem := g.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			_, err := g.add(ctx, tx, subjects)
			isSent = err == nil
			return err
		})
		if problem != nil {
			err = problem
		}
		if isSent {
			g.settle(subjects)
		}
	}
	return err
}

// settle removes returned grants, which are negative, from those that are owed.
func (g *Grants) settle(returned map[string]int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for subject, n := range returned {
		if g.owed[subject] += n; g.owed[subject] == 0 {
			delete(g.owed, subject)
		}
	}
}

// Exhausted reports that a link with maxClicks has none left to grant. Concurrent calls share a statement.
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
	err = g.DB.NewSelect().Table(ofLinks.table).Column("id").Where("id IN (?)", bun.In(linkIDs)).
		Where("granted >= max_clicks").Scan(ctx, &exhausted)
	return exhausted, err
}

// RecountGrants sets the granted clicks of links with maxClicks to the clicks that they have. It is
// for a restored database.
func (g *Grants) RecountGrants(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for after := ""; ; {
		var ids []string
		err := g.DB.NewSelect().Table(ofLinks.table).Column("id").Where("max_clicks IS NOT NULL").
			Where("id > ?", after).Order("id").Limit(recountBatch).Scan(ctx, &ids)
		if err != nil || len(ids) == 0 {
			return err
		}
		after = ids[len(ids)-1]
		counts, err := g.Clicks.Counts(ctx, g.DB, ids...)
		if err != nil {
			return err
		}
		err = g.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			for _, linkID := range ids {
				_, err := updateGranted(tx, ofLinks, "?", counts[linkID]).Where("id = ?", linkID).
					Where("granted <> ?", counts[linkID]).Exec(ctx)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("counting what links have granted: %w", err)
		}
	}
}
