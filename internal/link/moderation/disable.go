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
)

// The reasons that versions of the changed links have.
var (
	disabled = link.Reason{Action: audit.LinkDisabled, Cause: link.CauseOperator}
	enabled  = link.Reason{Action: audit.LinkEnabled, Cause: link.CauseOperator}
)

// DisableHost disables every link with a URL at a host and its subdomains, and returns how many. A link
// that is disabled already gets one more reason. It reads all links of the instance, in batches. It
// returns InvalidInput.
func (s *Store) DisableHost(ctx context.Context, host string) (changed int, err error) {
	if host, err = canonicalHost(host); err != nil {
		return 0, err
	}
	return s.inBatches(ctx, "TRUE", nil, func(ctx context.Context, tx bun.Tx, links []*link.Link) (int, error) {
		return s.disable(ctx, tx, host, slices.DeleteFunc(links, func(l *link.Link) bool {
			return !slices.ContainsFunc(l.Hosts(), func(one string) bool { return isAtOrBelow(one, host) })
		}))
	})
}

// EnableHost reverses DisableHost for the same host, and returns how many links it enabled: links
// with another reason stay disabled. It returns InvalidInput.
func (s *Store) EnableHost(ctx context.Context, host string) (enabled int, err error) {
	if host, err = canonicalHost(host); err != nil {
		return 0, err
	}
	return s.inBatches(ctx, "id IN (SELECT link_id FROM disabled_links WHERE host = ?)", []any{host},
		func(ctx context.Context, tx bun.Tx, links []*link.Link) (int, error) {
			_, enabled, err := s.enable(ctx, tx, host, links)
			return enabled, err
		})
}

// SetDisabled disables or enables a link by itself, which is named by its ID, short URL or code, and
// reports whether that changed it. A link that is disabled because of hosts stays so. Nodes apply
// the change within a second. It returns NotFound, or Conflict for a code of several links.
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
		var n int
		var err error
		if disabled {
			n, err = s.disable(ctx, tx, alone, []*link.Link{l})
		} else {
			n, _, err = s.enable(ctx, tx, alone, []*link.Link{l})
		}
		changed = n > 0
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, errNoSuchLink()
	}
	if err != nil {
		return nil, false, fmt.Errorf("disabling a link: %w", err)
	}
	return l, changed, nil
}

// alone is the host of the reason of a link that is disabled by itself.
const alone = ""

// disabling is a reason why a link is disabled: a host, or alone.
type disabling struct {
	bun.BaseModel `bun:"table:disabled_links"`

	LinkID    string `bun:",pk"`
	Host      string `bun:",pk"`
	CreatedAt time.Time
}

// Reasons returns the hosts because of which a link is disabled, in alphabetical order, and whether
// it is disabled by itself.
func (s *Store) Reasons(ctx context.Context, linkID string) (hosts []string, byItself bool, err error) {
	err = s.DB.NewSelect().Model((*disabling)(nil)).Column("host").Where("link_id = ?", linkID).Order("host").
		Scan(db.AsSystem(ctx), &hosts)
	if err != nil {
		return nil, false, fmt.Errorf("reading why a link is disabled: %w", err)
	}
	if byItself = slices.Contains(hosts, alone); byItself {
		hosts = hosts[1:]
	}
	return hosts, byItself, nil
}

// disable adds a reason to links that the caller has locked in the transaction, and returns how many
// lacked it. It disables those that had none.
func (s *Store) disable(ctx context.Context, tx bun.Tx, host string, links []*link.Link) (added int, err error) {
	if len(links) == 0 {
		return 0, nil
	}
	now := db.Instant(s.Now())
	reasons := make([]disabling, 0, len(links))
	for _, l := range links {
		reasons = append(reasons, disabling{LinkID: l.ID, Host: host, CreatedAt: now})
	}
	n, err := db.Affected(tx.NewInsert().Model(&reasons).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx))
	if err != nil {
		return 0, fmt.Errorf("storing why links are disabled: %w", err)
	}
	links = slices.DeleteFunc(links, func(l *link.Link) bool { return l.DisabledAt != nil })
	return int(n), s.setDisabledAt(ctx, tx, &now, links)
}

// enable removes a reason of links that the caller has locked in the transaction, and returns how
// many had it. It enables those that have none left, and returns how many.
func (s *Store) enable(
	ctx context.Context, tx bun.Tx, host string, links []*link.Link,
) (removed, enabled int, err error) {
	ids := make([]string, 0, len(links))
	for _, l := range links {
		ids = append(ids, l.ID)
	}
	if len(ids) == 0 {
		return 0, 0, nil
	}
	of := tx.NewDelete().Model((*disabling)(nil)).Where("link_id IN (?)", bun.In(ids))
	n, err := db.Affected(of.Where("host = ?", host).Exec(ctx))
	if err != nil {
		return 0, 0, fmt.Errorf("removing why links are disabled: %w", err)
	}
	var closed []string
	err = tx.NewSelect().Model((*disabling)(nil)).Distinct().Column("link_id").Where("link_id IN (?)", bun.In(ids)).
		Scan(ctx, &closed)
	if err != nil {
		return 0, 0, fmt.Errorf("reading why links are disabled: %w", err)
	}
	links = slices.DeleteFunc(links, func(l *link.Link) bool {
		return l.DisabledAt == nil || slices.Contains(closed, l.ID)
	})
	return int(n), len(links), s.setDisabledAt(ctx, tx, nil, links)
}

// setDisabledAt disables links for the operator, or enables them if the instant is nil. The caller
// has locked them in the transaction.
func (s *Store) setDisabledAt(ctx context.Context, tx bun.Tx, disabledAt *time.Time, links []*link.Link) error {
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
