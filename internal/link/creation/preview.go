package creation

import (
	"context"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Preview is what creating a deterministic link would return.
type Preview struct {
	CanonicalURL string
	// Codes are the candidates for salts 0 to 9.
	Codes []string
	// Existing is the URL's existing link, or nil.
	Existing *link.Link
}

// Preview computes the canonical form and the candidate codes of a URL. It returns InvalidURL or
// UnsafeURL.
func (s *Store) Preview(ctx context.Context, m workspace.Membership, raw string) (*Preview, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	draft, err := (&proposal{in: &Input{URL: raw}}).newDraft(m, s.now())
	if err != nil {
		return nil, err
	}
	if err := s.Refuse(ctx, s.DB, draft); err != nil {
		return nil, errs.From(err).At("url")
	}
	l, err := s.Deterministic(ctx, m, draft.CanonicalHash)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return nil, err
	}
	p := &Preview{CanonicalURL: draft.CanonicalURL, Existing: l}
	for _, code := range shortcode.Candidates(draft.CanonicalURL, m.ID()) {
		p.Codes = append(p.Codes, code)
	}
	return p, nil
}
