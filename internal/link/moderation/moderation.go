// Package moderation owns the operator's measures against abuse: blocked hosts, reports of links,
// and disabled links, and finds links for the operator. It decides which links are disabled;
// package link writes them, and checks every new destination with the Blocklist. The commands and
// the mutation reportLink call it.
package moderation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// batchSize is how many links one transaction locks.
const batchSize = 500

// The reasons for changes.
var (
	disabled = link.Reason{Action: audit.LinkDisabled, Cause: link.CauseOperator}
	enabled  = link.Reason{Action: audit.LinkEnabled, Cause: link.CauseOperator}
)

// Store disables links and stores reports.
type Store struct {
	DB     *db.DB
	Links  *link.Store
	Limits ratelimit.Limiter
	// Settings are the stores of settings with URLs.
	Settings []Settings
	Now      func() time.Time
}

// Settings is what this package needs of packages workspace and domain.
type Settings interface {
	// ClearURLs removes the matching URLs from all settings, and returns how many.
	ClearURLs(ctx context.Context, matches func(url string) bool) (int, error)
}

// ClearHost removes the URLs to a host and its subdomains from the settings of workspaces and
// domains, and returns how many. It returns InvalidInput.
func (s *Store) ClearHost(ctx context.Context, host string) (cleared int, err error) {
	if host, err = canonicalHost(host); err != nil {
		return 0, err
	}
	for _, settings := range s.Settings {
		n, err := settings.ClearURLs(ctx, func(url string) bool {
			u, err := urlnorm.Canonical(routing.WithoutPlaceholders(url))
			return err == nil && isAtOrBelow(u.Host(), host)
		})
		if cleared += n; err != nil {
			return cleared, err
		}
	}
	return cleared, nil
}

// isAtOrBelow reports whether a host is the other, or one of its subdomains.
func isAtOrBelow(host, other string) bool { return slices.Contains(hostAndParents(host), other) }

// DisableHost disables every link with a URL at a host and its subdomains, and returns how many. It
// reads all links of the instance, in batches. It returns InvalidInput.
func (s *Store) DisableHost(ctx context.Context, host string) (int, error) {
	now := db.Instant(s.Now())
	return s.setHostDisabled(ctx, host, "disabled_at IS NULL", &now)
}

// EnableHost reverses DisableHost, and returns how many links it enabled. It returns InvalidInput.
func (s *Store) EnableHost(ctx context.Context, host string) (int, error) {
	return s.setHostDisabled(ctx, host, "disabled_at IS NOT NULL", nil)
}

func (s *Store) setHostDisabled(
	ctx context.Context, host, candidates string, disabledAt *time.Time,
) (changed int, err error) {
	if host, err = canonicalHost(host); err != nil {
		return 0, err
	}
	return s.inBatches(ctx, candidates, func(ctx context.Context, tx bun.Tx, links []*link.Link) (int, error) {
		links = slices.DeleteFunc(links, func(l *link.Link) bool {
			return !slices.ContainsFunc(l.Hosts(), func(one string) bool { return isAtOrBelow(one, host) })
		})
		return len(links), s.setDisabledAt(ctx, tx, disabledAt, links...)
	})
}

// CancelHost cancels the pending changes of links that set a URL at a host and its subdomains, and
// returns how many. It returns InvalidInput.
func (s *Store) CancelHost(ctx context.Context, host string) (canceled int, err error) {
	if host, err = canonicalHost(host); err != nil {
		return 0, err
	}
	isOfHost := func(one string) bool { return isAtOrBelow(one, host) }
	return s.inBatches(ctx, "next_change_at IS NOT NULL",
		func(ctx context.Context, tx bun.Tx, links []*link.Link) (int, error) {
			return s.Links.CancelPending(ctx, tx, isOfHost, links...)
		})
}

// inBatches changes the candidates, which are locked, in transactions, and returns how many the
// function has changed.
func (s *Store) inBatches(
	ctx context.Context, candidates string,
	change func(ctx context.Context, tx bun.Tx, links []*link.Link) (int, error),
) (changed int, err error) {
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
			if err := s.Links.WriteDue(ctx, tx, links...); err != nil {
				return err
			}
			n, err = change(ctx, tx, links)
			return err
		})
		if err != nil {
			return changed, fmt.Errorf("changing links: %w", err)
		}
		if changed += n; last == "" {
			return changed, nil
		}
		after = last
	}
}

// SetDisabled disables or enables a link, which is named by its ID, short URL or code, and reports
// whether that changed it. Nodes apply the change within a second. It returns NotFound, or Conflict
// for a code of several links.
func (s *Store) SetDisabled(ctx context.Context, name string, disabled bool) (l *link.Link, changed bool, err error) {
	linkID, err := s.named(ctx, name)
	if err != nil {
		return nil, false, err
	}
	err = s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		l = &link.Link{}
		q := tx.NewSelect().Model(l).Where("id = ?", linkID).Where("purged_at IS NULL")
		if err := s.DB.ForUpdate(q).Scan(ctx); err != nil {
			return err
		}
		if err := s.Links.WriteDue(ctx, tx, l); err != nil {
			return err
		}
		if changed = (l.DisabledAt != nil) != disabled; !changed {
			return nil
		}
		var at *time.Time
		if now := db.Instant(s.Now()); disabled {
			at = &now
		}
		return s.setDisabledAt(ctx, tx, at, l)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, errNoSuchLink()
	}
	if err != nil {
		return nil, false, fmt.Errorf("disabling a link: %w", err)
	}
	return l, changed, nil
}

// setDisabledAt disables links for the operator, or enables them if the instant is nil. The caller
// has locked them in the transaction.
func (s *Store) setDisabledAt(ctx context.Context, tx bun.Tx, disabledAt *time.Time, links ...*link.Link) error {
	why := disabled
	if disabledAt == nil {
		why = enabled
	}
	rewrites := make([]link.Rewrite, 0, len(links))
	for _, l := range links {
		before := *l
		l.DisabledAt = disabledAt
		l.Touch(db.Instant(s.Now()))
		rewrites = append(rewrites, link.Rewrite{Before: &before, After: l})
	}
	return s.Links.Apply(ctx, tx, why, rewrites)
}

func errNoSuchLink() error {
	return errs.New(errs.NotFound, "There is no such link. This finds its id: linkforge links find.")
}
