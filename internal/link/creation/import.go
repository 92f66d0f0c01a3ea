package creation

import (
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Import are links that an import creates in a transaction of its own: Prepare comes before the
// transaction, In is part of it, and Announce follows its commit.
type Import struct{ batch *batch }

// NewImport returns the links that an import creates under an operation. They may have expired, and
// their versions say that they are imported.
func (s *Store) NewImport(
	ctx context.Context, m workspace.Membership, links []*Input, operationID string,
) (*Import, error) {
	c := &call{member: m, operationID: operationID}
	err := s.addLinks(ctx, c, imports, links)
	return &Import{s.newBatch(c)}, err
}

// Prepare does what would take too long in the transaction.
func (i *Import) Prepare(ctx context.Context) error {
	_, err := i.batch.prepare(ctx)
	return err
}

// In is CreateMany in the transaction, without another one if all links are refused. After ErrRetry,
// roll it back, and prepare again.
func (i *Import) In(ctx context.Context, tx bun.Tx) ([]link.Result, error) {
	b := i.batch
	if slices.ContainsFunc(b.items, (*item).isOpen) {
		if err := firstError(b.create(ctx, tx), b.calls[0]); err != nil {
			return nil, err
		}
	}
	results := make([]link.Result, 0, len(b.items))
	for _, it := range b.items {
		results = append(results, it.result())
	}
	return results, link.InternalError(results)
}

// Announce has this node know the links that were created.
func (i *Import) Announce(ctx context.Context) { i.batch.finish(ctx) }
