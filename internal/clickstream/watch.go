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

// Watch is told of the clicks of a workspace, or of one of its links, one after the other. As long
// as it takes them fast enough it has joined those whom the node tells. Else it leaves them, reads
// for itself what it has not been told, and joins again: whoever is slow costs nobody else
// anything. One goroutine uses it.
type Watch struct {
	live                *Live
	workspaceID, linkID string
	// place is the one up to which clicks have been read or taken, and next those that were read and
	// not taken.
	place place
	next  []*placed
	// atEnd says that there was nothing after the place when it was reached.
	atEnd bool
	// buffer is nil unless the watch has joined, and closed when it has to leave. began is the place
	// at which it has joined.
	buffer chan *placed
	began  place
	// last is the last click that was taken; nil before the first.
	last *click.Click
}

// Watch begins after the click with the id or, if that is empty, with what is written from now on.
// An empty link means all of the workspace's. It returns Forbidden, InvalidInput for what is no
// click's id, and Expired for a click that the workspace does not have, or that was written more
// than 23 hours ago. The caller closes the watch.
func (l *Live) Watch(ctx context.Context, m workspace.Membership, linkID, after string) (*Watch, error) {
	ctx, err := m.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	w := &Watch{live: l, workspaceID: m.ID(), linkID: linkID}
	if w.place, err = l.begin(ctx, m, after); err != nil {
		return nil, err
	}
	w.atEnd = after == ""
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all++
	return w, nil
}

// begin is the place after a click, or after all that there is.
func (l *Live) begin(ctx context.Context, m workspace.Membership, after string) (place, error) {
	ctx, cancel := context.WithTimeout(ctx, tellDeadline)
	defer cancel()
	if after == "" {
		p, err := l.head(db.AsSystem(ctx))
		if err != nil {
			return place{}, fmt.Errorf("looking for the latest clicks: %w", err)
		}
		return p, nil
	}
	at, number, ok := stats.SplitID(after)
	if !ok {
		return place{}, errs.New(errs.InvalidInput, "That is no click's id.").At("after")
	}
	known, err := l.DB.NewSelect().Model((*click.Row)(nil)).Where("workspace_id = ?", m.ID()).
		Where("clicked_at = ?", at).Where("id = ?", number).Exists(ctx)
	if err != nil {
		return place{}, fmt.Errorf("looking for a click: %w", err)
	}
	if !known { // it may be another tenant's
		return place{}, errCursorGone()
	}
	b, err := l.batchOf(db.AsSystem(ctx), number)
	if err != nil {
		return place{}, fmt.Errorf("looking for a click's batch: %w", err)
	}
	if b == nil || l.Now().Sub(b.WrittenAt) > lateAfter {
		return place{}, errCursorGone()
	}
	return b.at(number), nil
}

// Next waits for the next click. It returns the context's error, or Expired when it was not called
// for so long that clicks have been forgotten that were to come. While the database does not answer
// it waits.
func (w *Watch) Next(ctx context.Context) (*click.Click, error) {
	for {
		if len(w.next) > 0 {
			w.last, w.next = w.next[0].Click, w.next[1:]
			return w.last, nil
		}
		if w.buffer != nil {
			if c, err := w.take(ctx); c != nil || err != nil {
				return c, err
			}
			continue
		}
		if err := w.catchUp(ctx); err != nil {
			return nil, err
		}
	}
}

// take waits for what the node tells; nil means that the watch had to leave.
func (w *Watch) take(ctx context.Context) (*click.Click, error) {
	select {
	case c, ok := <-w.buffer:
		if !ok {
			w.buffer, w.atEnd = nil, false
			return nil, nil
		}
		w.place, w.last = c.place, c.Click
		return w.last, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// catchUp joins or, as long as there is something before what the node tells next, reads some of
// it.
func (w *Watch) catchUp(ctx context.Context) error {
	if w.join() {
		return nil
	}
	s, err := w.live.readOn(ctx, w.place, []string{w.workspaceID}, w.linkID)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errs.Is(err, errs.Expired) {
		return err
	}
	if err != nil { // Run says it
		return poll.Wait(ctx, tellEvery)
	}
	w.next, w.place, w.atEnd = s.clicks, s.reached, !s.more
	return nil
}

// join has the node tell the watch what comes after its place, and reports whether it does: not
// when the others have been told more already, nor when there is too much to come for a buffer.
func (w *Watch) join() bool {
	l := w.live
	if !w.atEnd {
		return false
	}
	l.telling.Lock()
	defer l.telling.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.joined) == 0 {
		l.told, l.asked = w.place, l.Now()
	}
	if w.place.compare(l.told) < 0 {
		return false
	}
	if l.joined == nil {
		l.joined = map[string]map[*Watch]bool{}
	}
	if l.joined[w.workspaceID] == nil {
		l.joined[w.workspaceID] = map[*Watch]bool{}
	}
	l.joined[w.workspaceID][w] = true
	w.buffer, w.began = make(chan *placed, watchBuffer), w.place
	return true
}

// offer tells a watch that has joined of a click of its workspace, unless it had to leave before.
// It does not wait. The node's lock is held.
func (w *Watch) offer(c *placed) {
	if w.linkID != "" && w.linkID != c.LinkID || c.place.compare(w.began) <= 0 {
		return
	}
	select {
	case w.buffer <- c:
	default:
		w.leave()
	}
}

// leave ends that the node tells the watch of clicks. The node's lock is held.
func (w *Watch) leave() {
	l := w.live
	if !l.joined[w.workspaceID][w] {
		return
	}
	close(w.buffer)
	delete(l.joined[w.workspaceID], w)
	if len(l.joined[w.workspaceID]) == 0 {
		delete(l.joined, w.workspaceID)
	}
}

// Last is the cursor to go on with: the id of the last click that Next has returned; empty before
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
	w.leave()
	w.live.all--
}
