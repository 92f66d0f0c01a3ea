package feed

import (
	"context"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

// watchBuffer is the number of items that are buffered for a Watch. A slower Watch reads the log.
const watchBuffer = 1000

// Watch returns the items of a workspace, one at a time. A fast Watch is attached to Live. If its
// buffer is full, it is detached, reads the missed items by itself, and attaches again, so that
// slow clients do not delay others. One goroutine uses it.
type Watch[T any] struct {
	live *Live[T]
	Subject[T]
	// position is the end of the items that were read; next has the items that were not returned
	// yet.
	position Position
	next     []Item[T]
	// atEnd means that no item followed the position when it was read.
	atEnd bool
	// buffer is nil unless the watch is attached, and closed when it is detached. began is the
	// position at which it was attached.
	buffer chan Item[T]
	began  Position
}

// Subject selects the items of a Watch: some items of a workspace.
type Subject[T any] struct {
	WorkspaceID string
	// Wants reports whether an item of the workspace is part of it.
	Wants func(T) bool
	// Log has at least the items that Wants selects. A Watch that is not attached reads it.
	Log Log[T]
}

// Watch starts after a position. atEnd means that no item followed it when it was read. The caller
// closes the watch.
func (l *Live[T]) Watch(s Subject[T], after Position, atEnd bool) *Watch[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	return &Watch[T]{live: l, Subject: s, position: after, atEnd: atEnd}
}

// Next waits for the next item. It returns the error of the context, or Expired if it was not
// called for so long that items were deleted. It waits while the log is unavailable.
func (w *Watch[T]) Next(ctx context.Context) (item T, err error) {
	for {
		if len(w.next) > 0 {
			item, w.next = w.next[0].Value, w.next[1:]
			if w.Wants(item) {
				return item, nil
			}
			continue
		}
		if w.buffer != nil {
			found, ok, err := w.receive(ctx)
			if ok || err != nil {
				return found, err
			}
			continue
		}
		if err := w.catchUp(ctx); err != nil {
			return item, err
		}
	}
}

// receive waits for a delivered item. It returns false if the watch was detached.
func (w *Watch[T]) receive(ctx context.Context) (value T, ok bool, err error) {
	select {
	case item, ok := <-w.buffer:
		if !ok {
			w.buffer, w.atEnd = nil, false
			return value, false, nil
		}
		w.position = item.Position
		return item.Value, true, nil
	case <-ctx.Done():
		return value, false, ctx.Err()
	}
}

// catchUp attaches the watch, or reads some of the items before the next delivery.
func (w *Watch[T]) catchUp(ctx context.Context) error {
	if w.attach() {
		return nil
	}
	s, err := w.Log.After(ctx, w.position, []string{w.WorkspaceID})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errs.Is(err, errs.Expired) {
		return err
	}
	if err != nil { // Run logs it
		return poll.Wait(ctx, retryInterval)
	}
	isStuck := w.atEnd && s.Reached.Compare(w.position) == 0
	w.next, w.position, w.atEnd = s.Items, s.Reached, !s.More
	if isStuck { // an attached watch started after an item that the log does not return yet
		return poll.Wait(ctx, retryInterval)
	}
	return nil
}

// attach adds the watch to Live, and reports whether it did: not if the attached watches have
// received more, nor if more items follow than a buffer holds.
func (w *Watch[T]) attach() bool {
	l := w.live
	if !w.atEnd {
		return false
	}
	l.delivering.Lock()
	defer l.delivering.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.attached) == 0 {
		l.delivered, l.readAt = w.position, l.now()
		l.lookAgain()
	}
	if w.position.Compare(l.delivered) < 0 {
		return false
	}
	if l.attached[w.WorkspaceID] == nil {
		l.attached[w.WorkspaceID] = map[*Watch[T]]bool{}
	}
	l.attached[w.WorkspaceID][w] = true
	w.buffer, w.began = make(chan Item[T], watchBuffer), w.position
	return true
}

// offer puts an item into the buffer of an attached watch, without waiting. The caller holds mu of
// Live.
func (w *Watch[T]) offer(item Item[T]) {
	if item.Position.Compare(w.began) <= 0 || !w.Wants(item.Value) {
		return
	}
	select {
	case w.buffer <- item:
	default:
		w.detach()
	}
}

// detach removes the watch from Live. The caller holds mu of Live.
func (w *Watch[T]) detach() {
	l := w.live
	if !l.attached[w.WorkspaceID][w] {
		return
	}
	close(w.buffer)
	delete(l.attached[w.WorkspaceID], w)
	if len(l.attached[w.WorkspaceID]) == 0 {
		delete(l.attached, w.WorkspaceID)
	}
}

// Close ends the watch.
func (w *Watch[T]) Close() {
	w.live.mu.Lock()
	defer w.live.mu.Unlock()
	w.detach()
	w.live.open--
}
