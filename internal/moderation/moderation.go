// Package moderation is what the operator does against abuse: blocked hosts, reports of links, and
// disabling links. It decides which links are disabled; package link writes them, and asks the
// Blocklist before it creates one. Commands and the resolver of reports call it.
package moderation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/ratelimit"
)

// batchSize is how many links one transaction looks at.
const batchSize = 500

// Store disables links and keeps the reports.
type Store struct {
	DB     *db.DB
	Links  *link.Store
	Limits ratelimit.Limiter
	// Now is the clock.
	Now func() time.Time
}

// DisableHost disables every link to a host and to all below it, and returns how many it has
// disabled. EnableHost takes that back. Both look at every link of the instance, in batches. They
// return InvalidInput.
func (s *Store) DisableHost(ctx context.Context, host string) (int, error) {
	now := db.Instant(s.Now())
	return s.setDisabled(ctx, host, "disabled_at IS NULL", &now)
}

// EnableHost is the opposite of DisableHost.
func (s *Store) EnableHost(ctx context.Context, host string) (int, error) {
	return s.setDisabled(ctx, host, "disabled_at IS NOT NULL", nil)
}

func (s *Store) setDisabled(
	ctx context.Context, host, candidates string, disabledAt *time.Time,
) (changed int, err error) {
	if host, err = canonicalHost(host); err != nil {
		return 0, err
	}
	for after := ""; ; {
		var n int
		var last string
		err := s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
			var links []*link.Link
			q := tx.NewSelect().Model(&links).Where("id > ?", after).Where(candidates).Order("id").Limit(batchSize)
			if err := s.DB.ForUpdate(q).Scan(ctx); err != nil {
				return err
			}
			if last = ""; len(links) > 0 {
				last = links[len(links)-1].ID
			}
			links = leadingTo(links, host)
			n = len(links)
			return s.Links.SetDisabledAt(ctx, tx, disabledAt, links...)
		})
		if err != nil {
			return changed, fmt.Errorf("disabling links: %w", err)
		}
		if changed += n; last == "" {
			return changed, nil
		}
		after = last
	}
}

// leadingTo are the links to the host and everything below it.
func leadingTo(links []*link.Link, host string) []*link.Link {
	return slices.DeleteFunc(links, func(l *link.Link) bool { return !slices.Contains(hostAndParents(l.Host()), host) })
}

// SetDisabled disables a link for the operator, or takes that back, and reports whether that
// changed anything: nodes obey within a second. It returns NotFound.
func (s *Store) SetDisabled(ctx context.Context, linkID string, disabled bool) (l *link.Link, changed bool, err error) {
	if !id.Valid(id.Link, linkID) {
		return nil, false, errNoSuchLink()
	}
	err = s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		l = &link.Link{}
		q := tx.NewSelect().Model(l).Where("id = ?", linkID).Where("purged_at IS NULL")
		if err := s.DB.ForUpdate(q).Scan(ctx); err != nil {
			return err
		}
		if changed = (l.DisabledAt != nil) != disabled; !changed {
			return nil
		}
		var at *time.Time
		if now := db.Instant(s.Now()); disabled {
			at = &now
		}
		return s.Links.SetDisabledAt(ctx, tx, at, l)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, errNoSuchLink()
	}
	if err != nil {
		return nil, false, fmt.Errorf("disabling a link: %w", err)
	}
	return l, changed, nil
}

func errNoSuchLink() error {
	return errs.New(errs.NotFound, "There is no such link. This finds its id: linkforge links find.")
}
