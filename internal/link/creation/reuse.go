package creation

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// first returns the item that stands for this one: itself unless it is a duplicate.
func (it *item) first() *item {
	if it.try.duplicateOf != nil {
		return it.try.duplicateOf
	}
	return it
}

// result returns the result so far: the final one, or that of the attempt. A duplicate gets the
// link of the first item, with Ignored or a conflict by its own fields.
func (it *item) result() link.Result {
	first := it.first()
	r := first.final
	if first.isOpen() {
		r = first.try.result
	}
	l := first.existing()
	if l == nil {
		l = r.Link // created or revived
	}
	if it == first || l == nil {
		return r
	}
	own := it.want.reuse(l)
	if own.err != nil {
		return link.Result{Err: own.err}
	}
	return link.Result{Link: l, Ignored: own.ignored}
}

// existing returns the link that the decision is about, if it was not deleted.
func (it *item) existing() *link.Link {
	if l := it.try.decision.link; l != nil && l.DeletedAt == nil {
		return l
	}
	return nil
}

// loadTags loads the tags of the links that items with tags, or duplicates with tags, have found.
func (b *batch) loadTags(ctx context.Context, conn bun.IDB) error {
	var found []*link.Link
	for _, it := range b.items {
		if l := it.first().try.facts.same; it.want.kind != upserts && it.want.in.Fields.Tags.Set && l != nil {
			found = append(found, l)
		}
	}
	return link.LoadTags(ctx, conn, found...)
}

// needsComparison reports whether it is unknown if the password of the item is that of the link
// that it has found.
func (it *item) needsComparison() bool {
	l := it.first().existing()
	return l != nil && it.first().isOpen() && it.want.isUnsure(l)
}

// comparePasswords compares the passwords that decisions must know. One that is the same gets the
// same PasswordID.
func (b *batch) comparePasswords(ctx context.Context) error {
	for _, it := range b.items {
		if !it.needsComparison() {
			continue
		}
		l := it.first().existing()
		isSame, err := b.store.Passwords.Matches(ctx, *l.PasswordHash, it.want.in.Fields.Routing.To.NewPassword().Text,
			it.call.member.Responsible(), it.call.member.ID())
		if err != nil && errs.From(err).Kind.IsUserError() {
			it.final = link.Result{Err: err}
			continue
		} else if err != nil { // a later call may succeed, so that no idempotency key stores it
			return err
		}
		if it.want.compared = l.Routing.Gate.PasswordID; isSame {
			it.want.draft.Routing.Gate.PasswordID = it.want.compared
		}
	}
	return nil
}

// sharePassword gives a duplicate with the password of the first item the same PasswordID.
func (it *item) sharePassword() {
	p, first := it.want.in.Fields.Routing.To.NewPassword(), it.try.duplicateOf.want.in.Fields.Routing.To.NewPassword()
	if p != nil && first != nil && p.Text == first.Text {
		it.want.draft.Routing.Gate.PasswordID = it.try.duplicateOf.want.draft.Routing.Gate.PasswordID
	}
}
