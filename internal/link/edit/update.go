package edit

import (
	"context"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Update is UpdateMany for one link.
func (s *Store) Update(ctx context.Context, m workspace.Membership, c linkfield.Change) (*link.Link, error) {
	return single(s.update(ctx, m, []linkfield.Change{c}, link.SkipFailed, ""))
}

// UpdateMany changes up to MaxBatch links, with one result each, in the order of the changes. The
// results' errors are NotFound, InvalidInput, InvalidURL, UnsafeURL, ExternalIDTaken, Immutable
// and, for a link that does not have the UpdatedAt in Seen, Conflict. An error means that nothing
// was changed: InvalidInput or Forbidden. The call is an operation, see RevertOperation.
func (s *Store) UpdateMany(
	ctx context.Context, m workspace.Membership, changes []linkfield.Change, policy link.Policy,
) ([]link.Result, error) {
	return s.update(ctx, m, changes, policy, id.New(id.Operation))
}

func (s *Store) update(
	ctx context.Context, m workspace.Membership, changes []linkfield.Change, policy link.Policy, operationID string,
) ([]link.Result, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	if err := link.CheckBatch(len(changes), "links"); err != nil {
		return nil, err
	}
	e := link.Edits{Policy: policy, Reason: updated, OperationID: operationID}
	for _, c := range changes {
		e.IDs = append(e.IDs, c.ID)
		e.NeedClicks = e.NeedClicks || c.MaxClicks.To != nil
	}
	routings := make([]link.Routed, 0, len(changes))
	for _, c := range changes {
		routings = append(routings, link.Routed{Change: c.Routing.To, LinkID: c.ID})
	}
	if err := s.PrepareRoutings(ctx, m, routings); err != nil {
		return nil, err
	}
	e.Mutate = func(i int, l *link.Link) error { return s.Mutate(&changes[i], l) }
	return s.edit(ctx, m, e)
}
