// Package moderation owns the operator's measures against abuse: blocked hosts, reports of links,
// and disabled links, and finds links for the operator. It decides which links are disabled;
// package link writes them, and checks every new destination with the Blocklist. The commands and
// the mutation reportLink call it.
package moderation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// batchSize is how many links one transaction locks.
const batchSize = 500

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

// CancelHost cancels the pending changes of links that set a URL at a host and its subdomains, and
// returns how many. It returns InvalidInput.
func (s *Store) CancelHost(ctx context.Context, host string) (canceled int, err error) {
	if host, err = canonicalHost(host); err != nil {
		return 0, err
	}
	isOfHost := func(one string) bool { return isAtOrBelow(one, host) }
	return s.inBatches(ctx, "next_change_at IS NOT NULL", nil,
		func(ctx context.Context, tx bun.Tx, links []*link.Link) (int, error) {
			return s.Links.CancelPending(ctx, tx, isOfHost, links...)
		})
}

// inBatches changes the candidates, which are locked, in transactions, and returns how many the
// function has changed.
func (s *Store) inBatches(
	ctx context.Context, candidates string, args []any,
	change func(ctx context.Context, tx bun.Tx, links []*link.Link) (int, error),
) (changed int, err error) {
	for after := ""; ; {
		var n int
		var last string
		err := s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
			var links []*link.Link
			q := tx.NewSelect().Model(&links).Where("id > ?", after).Where(candidates, args...).
				Order("id").Limit(batchSize)
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

func errNoSuchLink() error {
	return errs.New(errs.NotFound, "There is no such link. This finds its id: linkforge links find.")
}
