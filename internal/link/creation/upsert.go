package creation

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// UpsertOutcome is the effect of an upsert.
type UpsertOutcome string

// The outcomes.
const (
	UpsertCreated   UpsertOutcome = "CREATED"
	UpsertUpdated   UpsertOutcome = "UPDATED" // also one that was adopted or restored
	UpsertUnchanged UpsertOutcome = "UNCHANGED"
)

// Upserted is the result of an upsert.
type Upserted struct {
	link.Result
	// Outcome is empty if there is an error.
	Outcome UpsertOutcome
}

// Upsert is UpsertMany for one link.
func (s *Store) Upsert(ctx context.Context, m workspace.Membership, in *Input) (Upserted, error) {
	results, err := s.upsert(ctx, m, []*Input{in}, link.SkipFailed, "")
	if err != nil {
		return Upserted{}, err
	}
	return results[0], results[0].Err
}

// UpsertMany creates or changes up to MaxBatch links, with one result each, in the same order. A
// link that has all the values already is only read. One without an external id that has the URL of
// a Deterministic input, or the code of a Custom one, is adopted. A deleted link is restored. Of
// any number of concurrent calls exactly one creates a link.
//
// The results' errors are those of Create and Update, Immutable for another strategy or code, and
// Conflict or CodeTaken for a URL or code of a link with another external id. An error means that
// nothing was changed: InvalidInput or Forbidden. The call is an operation, which package edit can
// undo.
func (s *Store) UpsertMany(
	ctx context.Context, m workspace.Membership, in []*Input, policy link.Policy,
) ([]Upserted, error) {
	return s.upsert(ctx, m, in, policy, id.New(id.Operation))
}

func (s *Store) upsert(
	ctx context.Context, m workspace.Membership, in []*Input, policy link.Policy, operationID string,
) ([]Upserted, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	if err := link.CheckBatch(len(in), "links"); err != nil {
		return nil, err
	}
	in = normalized(in, m)
	if err := checkDistinct(in); err != nil {
		return nil, err
	}
	c := &call{member: m, policy: policy, operationID: operationID}
	if err := s.addLinks(ctx, c, upserts, in); err != nil {
		return nil, err
	}
	if err := s.create(ctx, c); err != nil {
		return nil, fmt.Errorf("upserting links: %w", err)
	}
	upserted := make([]Upserted, 0, len(in))
	for i, r := range c.results {
		outcome := c.items[i].outcome(r)
		if outcome == UpsertCreated || outcome == UpsertUpdated {
			s.Forget(r.Link)
		}
		upserted = append(upserted, Upserted{Result: r, Outcome: outcome})
	}
	return upserted, link.InternalError(c.results)
}

// normalized returns the input with external ids as they are stored. For a membership that is
// restricted to one folder, no folder means that of a new link.
func normalized(in []*Input, m workspace.Membership) []*Input {
	normal := make([]*Input, 0, len(in))
	for _, u := range in {
		copied := *u
		copied.Fields.ExternalID = optional.Set(new(validate.Normal(u.externalID())))
		if len(m.Fence()) == 1 && u.Fields.FolderID.To == nil {
			copied.Fields.FolderID = optional.Edit[*string]{}
		}
		normal = append(normal, &copied)
	}
	return normal
}

func checkDistinct(in []*Input) error {
	known := make(map[string]bool, len(in))
	for _, u := range in {
		if known[u.externalID()] && u.externalID() != "" { // each link without one has an error of its own
			return errs.New(errs.InvalidInput, "The externalId %q occurs twice. Each link must have its own.",
				u.externalID()).
				At("links")
		}
		known[u.externalID()] = true
	}
	return nil
}

func (it *item) outcome(r link.Result) UpsertOutcome {
	switch {
	case r.Err != nil:
		return ""
	case r.Created:
		return UpsertCreated
	case r.Revived || r.Link.Version != it.versionBefore:
		return UpsertUpdated
	}
	return UpsertUnchanged
}

// findUpserted looks up the links with the external ids of upserts. An item whose link has all
// values already gets its result: nothing is locked or written for it.
func (b *batch) findUpserted(ctx context.Context) error {
	if !b.isUpsert() {
		return nil
	}
	var externalIDs wanted[string]
	var tagged []*link.Link
	for _, it := range b.items {
		it.restart()
		if _, err := linkfield.CheckExternalID(it.want.in.externalID()); err == nil { // else validate says why
			externalIDs.add(it.call.member.ID(), it.want.in.externalID())
		}
	}
	var links []*link.Link
	if err := lookUp(b, b.store.DB, &links, "TRUE", "external_id", "TEXT", externalIDs).Run(ctx); err != nil {
		return fmt.Errorf("selecting links: %w", err)
	}
	if err := link.Complete(ctx, b.store.DB, b.now, links...); err != nil {
		return err
	}
	holders := make(map[string]*link.Link, len(links))
	for _, l := range links {
		holders[*l.ExternalID] = l
	}
	for _, it := range b.items {
		it.holder = holders[it.want.in.externalID()]
		if it.holder != nil && !it.call.member.IsInside(it.holder.FolderID) {
			it.holder, it.final.Err = nil, link.ErrExternalIDTaken()
		}
		if it.holder != nil && it.want.in.Fields.Tags.Set {
			tagged = append(tagged, it.holder)
		}
	}
	if err := link.LoadTags(ctx, b.store.DB, tagged...); err != nil {
		return err
	}
	for _, it := range b.items {
		l := it.holder
		if l == nil || it.final.Err != nil || l.NextChangeAt != nil && !l.NextChangeAt.After(b.now) {
			continue // a scheduled change that is due is written first
		}
		l.In = it.call.member
		after := *l
		if err := b.applyUpsert(it, &after); err != nil { // decided again once the link is locked
			continue
		}
		if link.IsSame(l, &after, l.Tags) {
			it.final = link.Result{Link: l}
		}
	}
	return nil
}

// changeFound locks and changes the links that the upserts of the batch have found. It returns
// ErrFailed for an AllOrNothing batch that has an error.
func (b *batch) changeFound(ctx context.Context, tx bun.Tx) error {
	var found []*item
	e := link.Edits{ReasonOf: reasonOfUpsert, OperationID: b.calls[0].operationID}
	for _, it := range b.items {
		if it.try.decision.act == changes {
			found, e.IDs = append(found, it), append(e.IDs, it.try.decision.link.ID)
			e.NeedClicks = e.NeedClicks || it.want.in.Fields.MaxClicks.Set
		}
	}
	if len(found) > 0 {
		e.Mutate = func(i int, l *link.Link) error { return b.applyUpsert(found[i], l) }
		results, err := b.store.EditIn(ctx, tx, b.calls[0].member, e)
		if err != nil {
			return err
		}
		for i, r := range results {
			if errs.Is(r.Err, errs.NotFound) { // it was purged meanwhile
				return ErrRetry
			}
			found[i].try.result = r
		}
	}
	if b.isAllOrNothing() && b.failed() {
		return link.ErrFailed
	}
	return nil
}

func reasonOfUpsert(before *link.Link) link.Reason {
	if before.DeletedAt != nil {
		return revived
	}
	return link.Reason{Action: audit.LinkUpdated, Cause: link.CauseUpdated}
}

// hasCode reports whether a link has the custom code of an item, in any case where case does not
// matter.
func (it *item) hasCode(l *link.Link) bool {
	named := link.Link{Strategy: link.Custom, In: it.call.member}
	if it.domain != nil {
		named.SetOwnCode(it.domain, *it.want.in.CustomCode)
	} else {
		named.Code = *it.want.in.CustomCode
		named.AssignCodeKey()
	}
	return named.CodeIdentity() == l.CodeIdentity() || named.Code == l.ShownCode()
}

// applyUpsert changes an existing link to the values of an upsert.
func (b *batch) applyUpsert(it *item, l *link.Link) error {
	u, externalID := it.want.in, it.want.in.externalID()
	it.versionBefore = l.Version
	hasID, hasOther, before := optional.Equal(l.ExternalID, &externalID), l.ExternalID != nil, l.OriginalURL
	hasCode := u.CustomCode == nil || it.hasCode(l)
	_, urlErr := link.Canonical(u.URL)
	var codeErr error
	if !hasCode {
		_, codeErr = it.customCodes(link.Custom)
	}
	if err := errs.All(urlErr, codeErr, l.SetFields(&u.Fields, b.now)); err != nil {
		return err
	}
	switch {
	case !hasID && it.try.facts.ofID != nil:
		return ErrRetry
	case !hasID && hasOther:
		return errOfOther(it.want.draft.Strategy, withOtherID)
	case u.Strategy != nil && *u.Strategy != l.Strategy:
		return errOtherStrategy(l)
	case u.DomainID != nil && !optional.Equal(u.DomainID, l.DomainID):
		return errs.New(errs.Immutable,
			"The code of the link with this externalId is not of this domain, which cannot change.").
			At("domainId")
	case !hasCode:
		return errs.New(errs.Immutable, "The link with this externalId has the code %s, which cannot change.",
			l.ShownCode()).
			At("customCode")
	}
	if err := l.ChangeURL(u.URL, b.now); err != nil {
		return err
	}
	if l.DeletedAt != nil {
		if err := l.UnmarkDeleted(b.now); err != nil {
			return err
		}
	}
	if l.OriginalURL != before || u.Fields.Routing.Set {
		return b.store.RunTests(l)
	}
	return nil
}
