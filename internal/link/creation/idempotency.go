package creation

import (
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// savedResult is a Result under an idempotency key.
type savedResult struct {
	LinkID      string   `json:"link,omitempty"`
	Created     bool     `json:"created,omitempty"`
	Ignored     []string `json:"ignored,omitempty"`
	OperationID string   `json:"operation,omitempty"`
	Code        string   `json:"code,omitempty"`
	Message     string   `json:"message,omitempty"`
	Field       []string `json:"field,omitempty"`
}

// newKey returns the batch's idempotency key, or nil. It returns InvalidInput.
func (s *Store) newKey(m workspace.Membership, in Batch) (*idempotencyKey, error) {
	if in.IdempotencyKey == nil {
		return nil, nil
	}
	name := *in.IdempotencyKey
	in.IdempotencyKey = nil
	var passwords []string
	for _, l := range in.Links {
		if p := s.Fingerprint(l.Routing); p != "" {
			passwords = append(passwords, p)
		}
	}
	input := struct {
		Batch
		Passwords []string `json:",omitempty"`
	}{in, passwords}
	return newIdempotencyKey(m.ID(), m.ActorID(), name, input)
}

// savedResults returns the results saved under the key, with the links in their current state, and
// reports whether there are any. It returns IdempotencyConflict.
func (s *Store) savedResults(
	ctx context.Context, m workspace.Membership, k *idempotencyKey,
) (results []link.Result, found bool, err error) {
	var saved []savedResult
	if found, err = s.idempotency.Find(ctx, k, &saved); !found || err != nil {
		return nil, false, err
	}
	ids := make([]string, 0, len(saved))
	for _, r := range saved {
		ids = append(ids, r.LinkID)
	}
	links, err := s.Load(ctx, m, ids...) // a key may create links and read none
	if err != nil {
		return nil, false, err
	}
	for _, r := range saved {
		switch l := links[r.LinkID]; {
		case r.Code != "":
			err := errs.New(errs.Coded(r.Code), "%s", r.Message).At(r.Field...)
			results = append(results, link.Result{Link: l, Created: r.Created, Err: err})
		case l == nil:
			results = append(results, link.Result{OperationID: r.OperationID, Err: link.ErrNotFound()})
		default:
			results = append(results,
				link.Result{Link: l, Created: r.Created, Ignored: r.Ignored, OperationID: r.OperationID})
		}
	}
	return results, true, nil
}

// saveResults saves the results of a batch with a link under its idempotency key, if it has one. It
// returns errKeyTaken when there are saved results already.
func (b *batch) saveResults(ctx context.Context, tx bun.Tx) error {
	key := b.calls[0].key
	if key == nil || !slices.ContainsFunc(b.items, func(it *item) bool { return it.result().Link != nil }) {
		return nil
	}
	saved := make([]savedResult, 0, len(b.items))
	for _, it := range b.items {
		saved = append(saved, it.savedResult())
	}
	return b.idempotency.Save(ctx, tx, key, saved)
}

// savedResult returns the item's result within the transaction.
func (it *item) savedResult() savedResult {
	r := it.result()
	if r.Err != nil {
		e := errs.From(r.Err)
		return savedResult{Code: e.Kind.Code(), Message: e.Public(), Field: e.Field}
	}
	return savedResult{LinkID: r.Link.ID, Created: r.Created, Ignored: r.Ignored, OperationID: r.OperationID}
}
