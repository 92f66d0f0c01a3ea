// Package clickstream delivers committed clicks to subscriptions, in one order on every node. It
// reads the batches that ingest announces and does not write clicks. GraphQL subscriptions
// and webhooks call it.
package clickstream

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// readDeadline bounds one read.
const readDeadline = 5 * time.Second

// Live delivers clicks of all nodes to the watches of this node, each once and in the same order on
// every node.
type Live struct {
	*feed.Live[*click.Click]

	clicks clickLog
}

// New returns a Live that does not run yet.
func New(d *db.DB, clicks clickstore.Store, log *slog.Logger, now func() time.Time) *Live {
	l := &Live{clicks: clickLog{db: d, clicks: clicks, now: now}}
	l.Live = feed.NewLive(&l.clicks, now, log, "reading new clicks for subscriptions failed")
	return l
}

// Watch starts after the click with the id after or, if it is empty, with new clicks. An empty
// linkID means all links of the workspace. It returns Forbidden, InvalidInput for an invalid id,
// and Expired for a click that the workspace does not have, or that was written more than 23 hours
// ago, and NotFound for a link outside of the fence of an API key. The caller closes the watch.
func (l *Live) Watch(
	ctx context.Context, m workspace.Membership, linkID, after string,
) (*feed.Watch[*click.Click], error) {
	ctx, err := m.EnterLink(ctx, workspace.ReadStats, l.clicks.db, linkID)
	if err != nil {
		return nil, err
	}
	log := l.clicks
	log.linkID = linkID
	start, err := log.begin(ctx, m, after)
	if err != nil {
		return nil, err
	}
	wants := func(c *click.Click) bool { return linkID == "" || c.LinkID == linkID }
	subject := feed.Subject[*click.Click]{WorkspaceID: m.ID(), Wants: wants, Log: &log}
	return l.Live.Watch(subject, start, after == ""), nil
}

// begin returns the position after a click, or after all clicks.
func (l *clickLog) begin(ctx context.Context, m workspace.Membership, after string) (feed.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, readDeadline)
	defer cancel()
	if after == "" {
		p, err := l.head(ctx)
		if err != nil {
			return feed.Position{}, fmt.Errorf("selecting the latest clicks: %w", err)
		}
		return p, nil
	}
	_, number, ok := click.SplitID(after)
	if !ok {
		return feed.Position{}, errs.New(errs.InvalidInput, "That is no click's id.").At("after")
	}
	known, err := l.clicks.ByID(ctx, m.ID(), after)
	if err != nil {
		return feed.Position{}, err
	}
	if len(known) == 0 || m.Fence() != nil && known[0].LinkID != l.linkID { // it may be another tenant's
		return feed.Position{}, errCursorGone()
	}
	b, err := l.batchOf(db.AsSystem(ctx), number)
	if err != nil {
		return feed.Position{}, fmt.Errorf("selecting a click's batch: %w", err)
	}
	if b == nil || l.now().Sub(b.WrittenAt) > Life {
		return feed.Position{}, errCursorGone()
	}
	return b.clickPosition(number), nil
}

// ByID returns the clicks of a workspace, which the context has entered, with the public ids, in
// any order. Ids of no click are missing.
func (l *Live) ByID(ctx context.Context, workspaceID string, ids ...string) ([]*click.Click, error) {
	return l.clicks.clicks.ByID(ctx, workspaceID, ids...)
}

// Head returns the position after all committed clicks.
func (l *Live) Head(ctx context.Context) (feed.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, readDeadline)
	defer cancel()
	return l.clicks.head(ctx)
}

// After returns clicks of workspaces after a position. It returns Expired if some may have been
// deleted.
func (l *Live) After(
	ctx context.Context, after feed.Position, workspaceIDs ...string,
) (feed.Step[*click.Click], error) {
	return l.clicks.After(ctx, after, workspaceIDs)
}
