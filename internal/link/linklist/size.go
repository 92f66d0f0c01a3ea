package linklist

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/memo"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// maxSize is where Size stops counting, so that it takes milliseconds.
	maxSize = 100_000
	// sizeLifetime is how long a size is remembered, for up to maxSizes workspaces.
	sizeLifetime = 10 * time.Minute
	maxSizes     = 10_000
)

// sizes remembers the sizes of workspaces, and of the fences of API keys, by ids.
type sizes struct {
	once  sync.Once
	cache memo.Cache[string, int]
}

func (s *sizes) get(ctx context.Context, ids string, count otter.LoaderFunc[string, int]) (int, error) {
	s.once.Do(func() {
		s.cache = memo.New(&otter.Options[string, int]{
			MaximumSize: maxSizes, ExpiryCalculator: otter.ExpiryWriting[string, int](sizeLifetime),
		})
	})
	return s.cache.Get(ctx, ids, count)
}

// Size returns the number of links that a search or a count of the workspace reads at most, without
// those outside of a fence, whose number the charge would tell: up to maxSize, and as of up to
// sizeLifetime ago.
func (s *Store) Size(ctx context.Context, m workspace.Membership) (int, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return 0, err
	}
	ctx, cancel := s.DB.Briefly(ctx)
	defer cancel()
	ids := strings.Join(append([]string{m.ID()}, m.Fence()...), " ")
	return s.sizes.get(ctx, ids, func(context.Context, string) (int, error) {
		counted := s.DB.NewSelect().Model((*link.Link)(nil)).ColumnExpr("1").
			Where("workspace_id = ?", m.ID()).Apply(m.Inside("folder_id")).Limit(maxSize)
		n, err := s.DB.NewSelect().TableExpr("(?) AS counted", counted).Count(ctx)
		if err != nil {
			return 0, fmt.Errorf("counting the links of a workspace: %w", err)
		}
		return int(n), nil
	})
}
