package domain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
)

const (
	// checkEvery is how often a verified domain's record is queried. A missing record is queried in
	// every run.
	checkEvery = 6 * time.Hour
	// grace is how long the record may be missing, such as during a move to another DNS provider.
	grace = 72 * time.Hour
	// checkBatch is how many domains are read at once, maxConcurrentChecks how many are queried
	// concurrently.
	checkBatch          = 500
	maxConcurrentChecks = 8
	// lastCheck is when a verified domain's record was last queried.
	lastCheck = "COALESCE(checked_at, verified_at)"
)

// CheckAll queries the records of verified domains, least recently checked first. A domain whose
// record has been missing for longer than grace is lost. It returns when no domain is due or the
// context's deadline is exceeded; the next run continues.
func (s *Store) CheckAll(ctx context.Context) error {
	start := s.now()
	if err := s.doubt(ctx, start); err != nil && ctx.Err() == nil {
		return err
	}
	for ctx.Err() == nil {
		due, err := s.due(ctx, start)
		if err == nil {
			err = s.checkEach(ctx, due, start)
		}
		if ctx.Err() == nil && (err != nil || len(due) == 0) {
			return err
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return ctx.Err()
}

// doubt makes domains due whose last check lies ahead, by the clock of a node.
func (s *Store) doubt(ctx context.Context, start time.Time) error {
	far := db.Latest(start, 0)
	doubted, err := db.Affected(s.DB.NewUpdate().Model((*Domain)(nil)).
		Set("checked_at = ?", start.Add(-checkEvery)).
		Set("failed_at = CASE WHEN failed_at > ? THEN ? ELSE failed_at END", far, start).
		Where("verified_at IS NOT NULL").Where(lastCheck+" > ?", far).Exec(ctx))
	if err != nil {
		return fmt.Errorf("doubting the checks of domains: %w", err)
	}
	if doubted > 0 {
		db.WarnOfClock(ctx, s.Log, "the last check of domains", "domains", doubted)
	}
	return nil
}

// due returns the next batch of a run. Domains count as checked at the start of the run, so that a
// run checks each once.
func (s *Store) due(ctx context.Context, start time.Time) ([]*Domain, error) {
	var due []*Domain
	err := s.DB.NewSelect().Model(&due).Where("verified_at IS NOT NULL").
		Where(lastCheck+" <= ? OR "+lastCheck+" < ? AND failed_at IS NOT NULL", start.Add(-checkEvery), start).
		OrderExpr(lastCheck + ", id").Limit(checkBatch).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading domains to check: %w", err)
	}
	return due, nil
}

func (s *Store) checkEach(ctx context.Context, due []*Domain, start time.Time) error {
	checking, ctx := errgroup.WithContext(ctx)
	checking.SetLimit(maxConcurrentChecks)
	for _, d := range due {
		checking.Go(func() error { return s.check(ctx, d, start) })
	}
	return checking.Wait()
}

// check queries a domain's record and stores the result. If DNS does not respond, the status stays.
func (s *Store) check(ctx context.Context, d *Domain, start time.Time) error {
	found, err := s.lookUp(ctx, d, start)
	isFound, isMissing := err == nil && found.prove(d), err == nil && !found.prove(d)
	if isMissing && d.FailedAt != nil && !start.Before(d.FailedAt.Add(grace)) {
		return s.drop(ctx, d, found)
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		checked := &Domain{}
		// A verification in the meantime is more current.
		q := tx.NewSelect().Model(checked).Where("id = ?", d.ID).Where("verified_at IS NOT NULL").
			Where(lastCheck+" < ?", start)
		err := s.DB.ForUpdate(q).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		before := checked.Status()
		checked.CheckedAt = &start
		switch {
		case isFound:
			checked.FailedAt = nil
		case isMissing && checked.FailedAt == nil:
			checked.FailedAt = new(s.now())
		}
		if _, err := tx.NewUpdate().Model(checked).Column("checked_at", "failed_at").WherePK().Exec(ctx); err != nil {
			return err
		}
		return s.writeStatus(ctx, tx, "", before, checked)
	})
	if err != nil {
		return fmt.Errorf("recording the check of a domain: %w", err)
	}
	return nil
}

// statusActions are the events of new statuses.
var statusActions = map[Status]audit.Action{
	Verified: audit.DomainVerified, Failing: audit.DomainFailing, Pending: audit.DomainLost,
}

// writeStatus writes the event of a domain that has a new status; none if it is the same. An empty
// actor is the server.
func (s *Store) writeStatus(ctx context.Context, tx bun.Tx, actorID string, before Status, d *Domain) error {
	if d.Status() == before {
		return nil
	}
	details := audit.Details{"host": d.Host}
	event := audit.New(d.WorkspaceID, actorID, statusActions[d.Status()], d.ID, details, s.Now())
	return audit.Write(ctx, tx, event.WithChanges(audit.Compare(
		[]audit.Field{{Name: "status", Value: before}}, []audit.Field{{Name: "status", Value: d.Status()}})))
}

// drop takes a domain from its workspace, unless the record was found or the domain was lost since.
func (s *Store) drop(ctx context.Context, d *Domain, found records) error {
	dropped := false
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		failing := &Domain{}
		q := tx.NewSelect().Model(failing).Where("id = ?", d.ID).Where("verified_at IS NOT NULL").
			Where("failed_at <= ?", found.queriedAt.Add(-grace))
		err := s.DB.ForUpdate(q).Scan(ctx)
		if dropped = err == nil; dropped {
			return s.lose(ctx, tx, failing, found)
		}
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("dropping a domain: %w", err)
	}
	if dropped {
		s.Log.InfoContext(ctx, "domain lost: its record has been missing for too long", "domain", d.ID, "workspace",
			d.WorkspaceID)
	}
	return nil
}
