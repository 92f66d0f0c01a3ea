package edit

import (
	"context"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Delete is DeleteMany for one link.
func (s *Store) Delete(ctx context.Context, m workspace.Membership, linkID string) (*link.Link, error) {
	return single(s.delete(ctx, m, []string{linkID}, link.SkipFailed, ""))
}

// DeleteMany deletes up to MaxBatch links; their codes stay reserved. Deleting a link again changes
// nothing. The results' errors are NotFound and Conflict. An error means that nothing was deleted:
// InvalidInput or Forbidden. The call is an operation, see RevertOperation.
func (s *Store) DeleteMany(
	ctx context.Context, m workspace.Membership, ids []string, policy link.Policy,
) ([]link.Result, error) {
	return s.delete(ctx, m, ids, policy, id.New(id.Operation))
}

func (s *Store) delete(
	ctx context.Context, m workspace.Membership, ids []string, policy link.Policy, operationID string,
) ([]link.Result, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	if err := link.CheckBatch(len(ids), "ids"); err != nil {
		return nil, err
	}
	return s.edit(ctx, m, link.Edits{IDs: ids, Policy: policy, Reason: deleted, OperationID: operationID,
		Mutate: func(_ int, l *link.Link) error {
			l.MarkDeleted(s.now())
			return nil
		}})
}

// Restore restores a deleted link. Restoring it again changes nothing. It returns NotFound,
// Forbidden, or UnsafeURL for a link that the operator has disabled or whose destination is
// refused.
func (s *Store) Restore(ctx context.Context, m workspace.Membership, linkID string) (*link.Link, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	return single(s.edit(ctx, m, link.Edits{IDs: []string{linkID}, Reason: restored,
		Mutate: func(_ int, l *link.Link) error { return l.UnmarkDeleted(s.now()) }}))
}
