package link

import (
	"context"
)

// Unexported functions that the tests of this package call.
var LoadPendingChanges = loadPending

func (s *Store) ValidStates(ctx context.Context, l *Link) error {
	_, err := s.validStates(ctx, l, true)
	return err
}

func (s *Store) MutateOnce(ctx context.Context, e *Edits, locked map[string]*Link) error {
	_, err := s.mutateOnce(ctx, e, locked, nil)
	return err
}

func (l *Link) PendingChanges() []*ScheduledChange { return l.pending }
