package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/clickstream"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/feed"
)

// idleClicks is how long a position among clicks may stay while there are no clicks.
const idleClicks = time.Hour

// clickSearch is the search of a node for webhooks with new clicks. One goroutine uses it.
type clickSearch struct {
	// reached is the position up to which the clicks of all workspaces were read; zero before the first search.
	// checked is an earlier one, from which they are read again at checkedAt: a webhook may be stored after the node has
	// read clicks that follow its position.
	reached, checked feed.Position
	checkedAt        time.Time
}

// findClicks marks the webhooks with new clicks as behind. One statement reads the clicks of all workspaces.
// Webhooks that are not active count the clicks that they miss.
func (d *Dispatcher) findClicks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), 2*statementTimeout)
	defer cancel()
	search, now := &d.clickSearch, d.Now()
	from := search.reached
	isCheck := search.checkedAt.IsZero() || now.Sub(search.checkedAt) > rescanInterval
	if isCheck {
		from = search.checked
		if err := errors.Join(d.addExpired(ctx, now), d.moveIdle(ctx, now)); err != nil {
			return err
		}
	}
	reached, err := d.findClicksAfter(ctx, from)
	if err != nil {
		return err
	}
	if isCheck {
		search.checked, search.checkedAt = cmp.Or(search.reached, reached), now
	}
	search.reached = reached
	return nil
}

// findClicksAfter marks the webhooks whose workspaces have clicks after a position as behind; the zero position is
// that of the webhook which is the furthest behind. It returns the position up to which there are no other clicks.
func (d *Dispatcher) findClicksAfter(ctx context.Context, after feed.Position) (reached feed.Position, err error) {
	latest := d.Now().Add(idleClicks) // clocks of other nodes may be ahead
	if after == (feed.Position{}) {
		first, err := d.firstOfClicks(ctx, time.Time{}, latest)
		if err != nil || first == nil {
			return reached, err
		}
		after = first.clicks()
	}
	found, err := d.Clicks.FindAfter(ctx, after)
	if err != nil || found.IsEmpty() {
		return found.Reached, err
	}
	return found.Reached, d.addWithClicks(ctx, found, latest)
}

// addWithClicks marks the webhooks with a position of at most an instant as behind whose workspaces have found clicks.
func (d *Dispatcher) addWithClicks(ctx context.Context, found clickstream.Found, until time.Time) error {
	var rows []*target
	err := d.targets().Where("wants_clicks").
		Where("clicks_at <= ?", db.Instant(until)).Where("workspace_id IN (?)", d.withClicks(found)).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("looking up webhooks with new clicks: %w", err)
	}
	d.clicks.add(rows...)
	return nil
}

// withClicks selects the workspaces with webhooks of clicks which may have some of the found clicks.
func (s *Store) withClicks(found clickstream.Found) *bun.SelectQuery {
	receivers := s.DB.NewSelect().Model((*Webhook)(nil)).Column("workspace_id").Distinct().Where("wants_clicks")
	return s.DB.NewSelect().TableExpr("(?) AS receiver", receivers).Column("workspace_id").
		Where("EXISTS (?)", s.Clicks.MayHave(found, "receiver.workspace_id"))
}

// firstOfClicks returns the webhook of clicks that is the furthest behind of those with a position of the span; nil if
// there is none.
func (s *Store) firstOfClicks(ctx context.Context, from, to time.Time) (*Webhook, error) {
	var rows []*Webhook
	err := s.DB.NewSelect().Model(&rows).Column("click_xid", "click_batch", "click_id", "clicks_at").Where("wants_clicks").
		Where("clicks_at > ?", db.Instant(from)).Where("clicks_at <= ?", db.Instant(to)).
		Order("click_xid", "click_batch", "click_id").Limit(1).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking up the first position among clicks: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return rows[0], nil
}

// addExpired marks the webhooks with an expired position as behind.
func (d *Dispatcher) addExpired(ctx context.Context, now time.Time) error {
	var rows []*target
	err := d.targets().Where("wants_clicks").
		Where("clicks_at <= ?", db.Instant(now.Add(-clickstream.Life))).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("looking up expired positions among clicks: %w", err)
	}
	d.clicks.add(rows...)
	return nil
}

// moveIdle moves the positions that have not moved for idleClicks past the clicks of other workspaces, before they
// expire. Webhooks whose workspaces may have clicks after them are behind. Locked webhooks are moved by a later call.
func (d *Dispatcher) moveIdle(ctx context.Context, now time.Time) error {
	from, to := now.Add(-clickstream.Life), now.Add(-idleClicks)
	first, err := d.firstOfClicks(ctx, from, to)
	if err != nil || first == nil {
		return err
	}
	found, err := d.Clicks.FindAfter(ctx, first.clicks())
	if err != nil {
		return err
	}
	moved := &Webhook{}
	moved.setClicks(found.Reached)
	idle := d.DB.NewSelect().Model((*Webhook)(nil)).Column("id").
		Where("wants_clicks").Where("clicks_at > ?", db.Instant(from)).Where("clicks_at <= ?", db.Instant(to))
	if !found.IsEmpty() {
		if err := d.addWithClicks(ctx, found, to); err != nil {
			return err
		}
		idle = idle.Where("workspace_id NOT IN (?)", d.withClicks(found))
	}
	_, err = d.DB.NewUpdate().Model(moved).Column("click_xid", "click_batch", "click_id", "clicks_at").
		Where("id IN (?)", d.DB.SkipLocked(idle)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("moving the positions of webhooks among clicks: %w", err)
	}
	return nil
}
