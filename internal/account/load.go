package account

import (
	"context"
	"slices"

	"github.com/linkforge/linkforge/internal/db"
)

// Load is Get for what is asked all the time: it shares a statement with others who ask at the same time. The accounts are
// theirs as well, to be read and not changed. Its context has no scope.
func (s *Store) Load(ctx context.Context, ids ...string) (map[string]*Account, error) {
	all, err := s.reads.Do(ctx, struct{}{}, ids, s.getAll)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*Account, len(ids))
	for _, accountID := range ids {
		if a := all[accountID]; a != nil {
			found[accountID] = a
		}
	}
	return found, nil
}

func (s *Store) getAll(ctx context.Context, questions [][]string) (map[string]*Account, error) {
	ids := slices.Concat(questions...)
	slices.Sort(ids)
	return s.Get(db.UpToDate(ctx), slices.Compact(ids)...)
}
