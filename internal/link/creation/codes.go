package creation

import (
	"context"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// randomAttempts is how many random codes are tried.
const randomAttempts = 5

// customCodes returns the code that the caller chose; none for other strategies.
func (it *item) customCodes(strategy link.Strategy) ([]string, error) {
	custom, isOwn := it.want.in.CustomCode, it.want.in.DomainID != nil
	var ofDomain error
	if isOwn && strategy != link.Custom && strategy != link.Random {
		ofDomain = errs.New(errs.InvalidInput, "The strategy of a domain's own codes is CUSTOM or RANDOM.").
			At("strategy")
	}
	switch {
	case strategy != link.Custom && custom != nil:
		return nil, errs.All(ofDomain,
			errs.New(errs.InvalidInput, "customCode goes with the strategy CUSTOM only.").At("customCode"))
	case strategy != link.Custom:
		return nil, ofDomain
	case custom == nil:
		return nil, errs.New(errs.InvalidInput, "The strategy CUSTOM needs a customCode.").At("customCode")
	}
	if isOwn {
		code, err := shortcode.ValidateOwn(*custom)
		if err != nil {
			return nil, errs.New(errs.InvalidInput, "%s", err).At("customCode")
		}
		return []string{code}, nil
	}
	if err := shortcode.ValidateCustom(*custom); err != nil {
		return nil, errs.New(errs.InvalidInput, "%s", err).At("customCode")
	}
	if shortcode.Reserved(*custom) {
		return nil, errs.New(errs.CodeReserved, "The server keeps this word for itself. Choose another code.").
			At("customCode")
	}
	return []string{*custom}, nil
}

// generateCodes generates the codes of items with the strategies Counter and Random that have none.
func (b *batch) generateCodes(ctx context.Context) error {
	var counters []*item
	for _, it := range b.items {
		if !it.isOpen() || it.isKnown() || len(it.codes) > 0 {
			continue
		}
		switch it.want.draft.Strategy {
		case link.Counter:
			counters = append(counters, it)
		case link.Random:
			generate := shortcode.Random
			if it.domain != nil && !it.domain.CaseSensitive {
				generate = shortcode.RandomFolded
			}
			it.codes = drawCodes(generate, it.domain != nil)
		}
	}
	codes, err := b.store.counters.Take(ctx, len(counters))
	if errs.Is(err, errs.CodeExhausted) {
		for _, it := range counters {
			it.final = link.Result{Err: err}
		}
		return nil
	}
	for i, code := range codes {
		counters[i].codes = []string{code}
	}
	return err
}

// drawCodes generates random codes. Those of the workspace are none of the words that the server
// keeps for itself.
func drawCodes(generate func() string, isOwn bool) (codes []string) {
	for len(codes) < randomAttempts {
		if code := generate(); isOwn || !shortcode.Reserved(code) {
			codes = append(codes, code)
		}
	}
	return codes
}

// assignCode gives the draft the next code to try, and reports false when there is none.
func (b *batch) assignCode(it *item) bool {
	code, ok := b.nextCode(it)
	it.want.draft.ID = id.New(id.Link)
	it.setCode(code)
	return ok
}

// setCode gives the draft a code. Generated codes of the workspace work at the root, where they are
// unique over the instance.
func (it *item) setCode(code string) {
	l := it.want.draft
	l.Code, l.RootCode, l.CodeKey = code, nil, nil
	switch {
	case it.domain != nil:
		l.SetOwnCode(it.domain, code)
	case l.Strategy == link.Custom:
		l.AssignCodeKey()
	default:
		l.RootCode = &l.Code
	}
}

func (b *batch) nextCode(it *item) (string, bool) {
	if it.want.draft.Strategy != link.Deterministic {
		return it.codes[min(it.try.tried, len(it.codes)-1)], it.try.tried < len(it.codes)
	}
	for ; it.try.tried < shortcode.Salts; it.try.tried++ {
		code := b.store.Candidate(it.want.draft.CanonicalURL, it.want.draft.WorkspaceID, it.try.tried)
		if !shortcode.Reserved(code) {
			return code, true
		}
	}
	return "", false
}
