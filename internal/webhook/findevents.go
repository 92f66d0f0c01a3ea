package webhook

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/feed"
)

// eventSearch is the search of a node for webhooks that are behind the event log. One goroutine uses it.
type eventSearch struct {
	// reached is the position up to which the log of all workspaces was read; zero before the first search.
	reached feed.Position
}

// findEvents marks the active webhooks with new events of their types as behind. It reads the workspaces and types of
// all events, and from time to time it compares all positions with the log.
func (d *Dispatcher) findEvents(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for {
		if d.rescanIsDue() {
			if err := d.rescan(ctx); err != nil {
				return err
			}
		}
		more, err := d.findNewEvents(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// findNewEvents reads the log of all workspaces, and reports whether more may follow.
func (d *Dispatcher) findNewEvents(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*statementTimeout)
	defer cancel()
	rows, err := audit.WrittenAfter(ctx, d.DB, d.eventSearch.reached, maxWritten)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	workspaces := map[audit.Action][]string{}
	for _, row := range rows {
		workspaces[row.Action] = append(workspaces[row.Action], row.WorkspaceID)
	}
	webhooks, err := d.receiving(ctx, workspaces)
	if err != nil {
		return false, err
	}
	d.events.add(webhooks...)
	d.eventSearch.reached = rows[len(rows)-1].Position
	return len(rows) == maxWritten, nil
}

// receiving returns the active webhooks that receive actions of their workspaces.
func (s *Store) receiving(ctx context.Context, workspaces map[audit.Action][]string) (rows []*target, err error) {
	q := s.targets().Where("status = ?", Active)
	q = q.WhereGroup(" AND ", func(q *bun.SelectQuery) *bun.SelectQuery {
		for action, ids := range workspaces {
			slices.Sort(ids)
			q = q.WhereOr("workspace_id IN (?) AND "+receives, bun.In(slices.Compact(ids)), action)
		}
		return q
	})
	if err := q.Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("looking up webhooks: %w", err)
	}
	return rows, nil
}

// receives is the condition that the types of a webhook, which are JSON, have an action.
const receives = `webhook.types LIKE '%"' || ? || '"%'`

func (d *Dispatcher) rescanIsDue() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	isDue := d.rescannedAt.IsZero() || d.Now().Sub(d.rescannedAt) > rescanInterval
	if isDue {
		d.rescannedAt = d.Now()
	}
	return isDue
}

// rescan compares the positions of all active webhooks with the log. Those with matching events are behind. The
// positions of the others move past their events, so that the next comparison does not read these again.
func (d *Dispatcher) rescan(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*statementTimeout)
	defer cancel()
	d.forgetPauses()
	defer func() {
		if err != nil {
			d.Rescan()
		}
	}()
	head, err := audit.Horizon(ctx, d.DB)
	if err != nil {
		return err
	}
	behind, passed, err := d.compareWithLog(ctx)
	if err != nil {
		return err
	}
	d.events.add(behind...)
	if d.eventSearch == (eventSearch{}) {
		d.eventSearch.reached = head
	}
	return d.moveTo(ctx, head, passed)
}

// compareWithLog returns the active webhooks with events after their position: with matching ones, and with others
// only.
func (s *Store) compareWithLog(ctx context.Context) (matching, others []*target, err error) {
	var rows []struct {
		target  `bun:",extend"`
		Matches bool
	}
	err = s.targets().
		ColumnExpr("EXISTS (?) AS matches", s.unread().ColumnExpr("1").Where(receivesEvent)).
		Where("status = ?", Active).Where("EXISTS (?)", s.unread().ColumnExpr("1")).Order("id").Scan(ctx, &rows)
	if err != nil {
		return nil, nil, fmt.Errorf("looking up webhooks behind the event log: %w", err)
	}
	for _, row := range rows {
		if row.Matches {
			matching = append(matching, &row.target)
		} else {
			others = append(others, &row.target)
		}
	}
	return matching, others, nil
}

// unread selects the events after the position of a webhook of an outer query.
func (s *Store) unread() *bun.SelectQuery {
	return s.DB.NewSelect().TableExpr("audit_events AS event").Where("event.workspace_id = webhook.workspace_id").
		Where("event.seq IS NOT NULL").Where("(event.xid, event.seq) > (webhook.xid, webhook.seq)")
}

// receivesEvent is receives for the event of unread.
const receivesEvent = `webhook.types LIKE '%"' || event.action || '"%'`

// maxCounted bounds the events of a webhook that unreadOf counts.
const maxCounted = 100_000

// unreadOf returns how many events webhooks will get deliveries of, by id. The context is that of the workspace.
func (s *Store) unreadOf(ctx context.Context, ids []string) (map[string]int64, error) {
	matching := s.unread().ColumnExpr("1").Where(receivesEvent).
		Where("webhook.tags = '[]' OR EXISTS (?)", s.matchingTags()).
		Where("event.created_at > ?", s.now().Add(-audit.FeedRetention)).Limit(maxCounted)
	var rows []struct {
		ID string
		N  int64
	}
	count := s.DB.NewSelect().TableExpr("(?) AS matching", matching).ColumnExpr("count(*)")
	err := s.DB.NewSelect().Model((*Webhook)(nil)).Column("id").ColumnExpr("(?) AS n", count).
		Where("id IN (?)", bun.In(ids)).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("counting events for webhooks: %w", err)
	}
	unread := map[string]int64{}
	for _, row := range rows {
		unread[row.ID] = row.N
	}
	return unread, nil
}

// matchingTags selects the tags of a webhook that the link of the event of unread has.
func (s *Store) matchingTags() *bun.SelectQuery {
	tags := "SELECT value FROM json_each(webhook.tags)"
	if s.DB.Kind == db.Postgres {
		tags = "SELECT jsonb_array_elements_text(webhook.tags::jsonb)"
	}
	return s.DB.NewSelect().TableExpr("link_tags").ColumnExpr("1").Where("link_tags.workspace_id = event.workspace_id").
		Where("link_tags.link_id = event.target_id").Where("link_tags.tag IN (" + tags + ")")
}

// moveTo moves the positions of webhooks, none of which has a matching event between its position and to. Positions
// that another node has moved further stay. Locked webhooks are moved by a later call.
func (s *Store) moveTo(ctx context.Context, to feed.Position, webhooks []*target) error {
	for chunk := range slices.Chunk(webhooks, batch) {
		var ids []string
		for _, w := range chunk {
			ids = append(ids, w.ID)
		}
		movable := s.DB.NewSelect().Model((*Webhook)(nil)).Column("id").Where("id IN (?)", bun.In(ids)).
			Where("status = ?", Active).Where("(xid, seq) < (?, ?)", to.XID, to.Seq)
		_, err := s.DB.NewUpdate().Model((*Webhook)(nil)).Set("xid = ?", to.XID).Set("seq = ?", to.Seq).
			Where("id IN (?)", s.DB.SkipLocked(movable)).Exec(ctx)
		if err != nil {
			return fmt.Errorf("moving the positions of webhooks: %w", err)
		}
	}
	return nil
}
