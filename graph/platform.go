package graph

import (
	"context"
	"sync"
	"time"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// platformAge is how old the figures of the instance may get, as the schema states. Anonymous users
// can request them, and counting reads all links.
const platformAge = 30 * time.Second

// platformCache keeps the figures of the instance.
type platformCache struct {
	mu    sync.Mutex // held while loading: others wait for the figures instead of counting too
	stats *gen.PlatformStats
	at    time.Time
}

func (r *queryResolver) CountryDatabase(context.Context) (*string, error) {
	return optional.Of(r.Countries.Edition().Type), nil
}

func (r *queryResolver) PlatformStats(ctx context.Context) (*gen.PlatformStats, error) {
	r.platform.mu.Lock()
	defer r.platform.mu.Unlock()
	if r.platform.stats != nil && r.Now().Sub(r.platform.at) < platformAge {
		return r.platform.stats, nil
	}
	links, err := r.LinkList.CountActive(ctx)
	if err != nil {
		return nil, err
	}
	clicks, err := r.Ledger.Platform(ctx)
	if err != nil {
		return nil, err
	}
	r.platform.stats = &gen.PlatformStats{
		TotalLinks: links, TotalRedirects: clicks.Clicks, AverageRedirectMs: clicks.Mean(),
	}
	r.platform.at = r.Now()
	return r.platform.stats, nil
}
