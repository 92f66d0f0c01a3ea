package clickstream

import (
	"context"
	"fmt"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/stats"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Watch returns the clicks of a workspace, or of one of its links, one at a time. A fast Watch is
// attached to Live. If its buffer is full, it is detached, reads the missed clicks by itself, and
// attaches again, so that slow clients do not delay others. One goroutine uses it.
type Watch struct {
	live                *Live
	workspaceID, linkID string
	// position is the end of the clicks that were read; next holds those that were not returned yet.
	position position
	next     []*positioned
	// atEnd means that no click followed the position when it was read.
	atEnd bool
	// buffer is nil unless the watch is attached, and closed when it is detached. began is the
	// position at which it was attached.
	buffer chan *positioned
	began  position
	// last is the last click that was returned; nil before the first.
	last *click.Click
}

// Watch starts after the click with the id after or, if it is empty, with new clicks. An empty
// linkID means all links of the workspace. It returns Forbidden, InvalidInput for an invalid id,
// and Expired for a click that the workspace does not have, or that was written more than 23 hours
// ago. The caller closes the watch.
func (l *Live) Watch(ctx context.Context, m workspace.Membership, linkID, after string) (*Watch, error) {
	ctx, err := m.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	w := &Watch{live: l, workspaceID: m.ID(), linkID: linkID}
	if w.position, err = l.begin(ctx, m, after); err != nil {
		return nil, err
	}
	w.atEnd = after == ""
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	return w, nil
}

// begin returns the position after a click, or after all clicks.
func (l *Live) begin(ctx context.Context, m workspace.Membership, after string) (position, error) {
	ctx, cancel := context.WithTimeout(ctx, readDeadline)
	defer cancel()
	if after == "" {
		p, err := l.head(db.AsSystem(ctx))
		if err != nil {
			return position{}, fmt.Errorf("selecting the latest clicks: %w", err)
		}
		return p, nil
	}
	at, number, ok := stats.SplitID(after)
	if !ok {
		return position{}, errs.New(errs.InvalidInput, "That is no click's id.").At("after")
	}
	known, err := l.DB.NewSelect().Model((*click.Row)(nil)).Where("workspace_id = ?", m.ID()).
		Where("clicked_at = ?", at).Where("id = ?", number).Exists(ctx)
	if err != nil {
		return position{}, fmt.Errorf("selecting a click: %w", err)
	}
	if !known { // it may be another tenant's
		return position{}, errCursorGone()
	}
	b, err := l.batchOf(db.AsSystem(ctx), number)
	if err != nil {
		return position{}, fmt.Errorf("selecting a click's batch: %w", err)
	}
	if b == nil || l.Now().Sub(b.WrittenAt) > cursorLife {
		return position{}, errCursorGone()
	}
	return b.clickPosition(number), nil
}

// Next waits for the next click. It returns the error of the context, or Expired if it was not
// called for so long that clicks were deleted. It waits while the database is unavailable.
func (w *Watch) Next(ctx context.Context) (*click.Click, error) {
	for {
		if len(w.next) > 0 {
			w.last, w.next = w.next[0].Click, w.next[1:]
			return w.last, nil
		}
		if w.buffer != nil {
			if c, err := w.receive(ctx); c != nil || err != nil {
				return c, err
			}
			continue
		}
		if err := w.catchUp(ctx); err != nil {
			return nil, err
		}
	}
}

// receive waits for a delivered click; nil means that the watch was detached.
func (w *Watch) receive(ctx context.Context) (*click.Click, error) {
	select {
	case c, ok := <-w.buffer:
		if !ok {
			w.buffer, w.atEnd = nil, false
			return nil, nil
		}
		w.position, w.last = c.position, c.Click
		return w.last, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// catchUp attaches the watch, or reads some of the clicks before the next delivery.
func (w *Watch) catchUp(ctx context.Context) error {
	if w.attach() {
		return nil
	}
	s, err := w.live.readAfter(ctx, w.position, []string{w.workspaceID}, w.linkID)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errs.Is(err, errs.Expired) {
		return err
	}
	if err != nil { // Run logs it
		return poll.Wait(ctx, pollInterval)
	}
	w.next, w.position, w.atEnd = s.clicks, s.reached, !s.more
	return nil
}

// attach adds the watch to Live, and reports whether it did: not if the attached watches have
// received more, nor if more clicks follow than a buffer holds.
func (w *Watch) attach() bool {
	l := w.live
	if !w.atEnd {
		return false
	}
	l.delivering.Lock()
	defer l.delivering.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.attached) == 0 {
		l.delivered, l.readAt = w.position, l.Now()
	}
	if w.position.compare(l.delivered) < 0 {
		return false
	}
	if l.attached == nil {
		l.attached = map[string]map[*Watch]bool{}
	}
	if l.attached[w.workspaceID] == nil {
		l.attached[w.workspaceID] = map[*Watch]bool{}
	}
	l.attached[w.workspaceID][w] = true
	w.buffer, w.began = make(chan *positioned, watchBuffer), w.position
	return true
}

// offer puts a click into the buffer of an attached watch, without waiting. The caller holds mu of
// Live.
func (w *Watch) offer(c *positioned) {
	if w.linkID != "" && w.linkID != c.LinkID || c.position.compare(w.began) <= 0 {
		return
	}
	select {
	case w.buffer <- c:
	default:
		w.detach()
	}
}

// detach removes the watch from Live. The caller holds mu of Live.
func (w *Watch) detach() {
	l := w.live
	if !l.attached[w.workspaceID][w] {
		return
	}
	close(w.buffer)
	delete(l.attached[w.workspaceID], w)
	if len(l.attached[w.workspaceID]) == 0 {
		delete(l.attached, w.workspaceID)
	}
}

// Last returns the cursor to resume from, the id of the last click that Next returned; empty before
// the first.
func (w *Watch) Last() string {
	if w.last == nil {
		return ""
	}
	return w.last.PublicID()
}

// Close ends the watch.
func (w *Watch) Close() {
	w.live.mu.Lock()
	defer w.live.mu.Unlock()
	w.detach()
	w.live.open--
}
