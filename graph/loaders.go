package graph

import (
	"context"
	"time"

	"github.com/vikstrous/dataloadgen"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/quota"
)

// loaders gather what the items of a page ask for one by one, and load it at once. They live as long as an
// operation.
type loaders struct {
	accounts *dataloadgen.Loader[string, *account.Account]
	totals   *dataloadgen.Loader[string, click.Tally]
	hits     *dataloadgen.Loader[string, int64]
}

// gatherTime is how long a load waits for others to join it.
const gatherTime = 500 * time.Microsecond

type loadersKey struct{}

func (r *resolver) withLoaders(ctx context.Context) context.Context {
	options := []dataloadgen.Option{dataloadgen.WithWait(gatherTime), dataloadgen.WithBatchCapacity(1000)}
	return context.WithValue(ctx, loadersKey{}, &loaders{
		accounts: dataloadgen.NewMappedLoader(func(ctx context.Context, ids []string) (map[string]*account.Account, error) {
			return r.Accounts.Get(ctx, ids...)
		}, options...),
		totals: dataloadgen.NewLoader(filled(r.Clicks.Totals), options...),
		hits:   dataloadgen.NewLoader(filled(r.hitsUsed), options...),
	})
}

func loadersOf(ctx context.Context) *loaders { return ctx.Value(loadersKey{}).(*loaders) }

// filled makes keys that a load does not know the zero value.
func filled[T any](load func(context.Context, []string) (map[string]T, error)) func(context.Context, []string) ([]T, []error) {
	return func(ctx context.Context, keys []string) ([]T, []error) {
		found, err := load(ctx, keys)
		if err != nil {
			return nil, []error{err}
		}
		values := make([]T, len(keys))
		for i, key := range keys {
			values[i] = found[key]
		}
		return values, nil
	}
}

// hitsUsed asks Redis, and the database about links that have no counter there.
func (r *resolver) hitsUsed(ctx context.Context, linkIDs []string) (map[string]int64, error) {
	month := quota.MonthOf(r.Now())
	used, err := r.Hits.Used(ctx, linkIDs, month)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, linkID := range linkIDs {
		if _, ok := used[linkID]; !ok {
			missing = append(missing, linkID)
		}
	}
	if len(missing) == 0 {
		return used, nil
	}
	counts, err := r.Clicks.CountsSince(ctx, missing, month.Start)
	for linkID, n := range counts {
		used[linkID] = n
	}
	return used, err
}
