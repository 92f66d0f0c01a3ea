package link

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing"
)

// reuse returns the result of a creation whose link exists: the link with the given fields that it ignores, or
// Conflict if such a field restricts which visitors get the destination, or when. A deleted link will be revived with all
// fields.
func (it *item) reuse(l *Link) Result {
	r := Result{Link: l}
	if l.DeletedAt != nil {
		return r
	}
	for _, d := range it.differences(l) {
		if d.Restricts {
			return Result{Err: errExistsWithout(d.Path...)}
		}
		r.Ignored = append(r.Ignored, strings.Join(d.Path, "."))
	}
	return r
}

// differences returns the given fields that an existing link has otherwise. Its tags are loaded if some are given.
func (it *item) differences(l *Link) (all []routing.Difference) {
	in, d := it.in, it.draft
	for _, f := range []struct {
		name                       string
		isGiven, isSame, restricts bool
	}{
		{"startsAt", in.StartsAt != nil, sameInstant(utc(d.StartsAt), utc(l.StartsAt)), true},
		{"expiresAt", in.ExpiresAt != nil, sameInstant(utc(d.ExpiresAt), utc(l.ExpiresAt)), true},
		{"maxClicks", in.MaxClicks != nil, optional.Equal(d.MaxClicks, l.MaxClicks), true},
		{"title", in.Title != nil, optional.Equal(d.Title, l.Title), false},
		{"note", in.Note != nil, optional.Equal(d.Note, l.Note), false},
		{"tags", in.Tags != nil, slices.Equal(d.tags, l.tags), false},
		{"metadata", in.Metadata != nil, d.Metadata == l.Metadata, false},
		{"redirectStatus", in.RedirectStatus != nil, d.RedirectStatus == l.RedirectStatus, false},
	} {
		if f.isGiven && !f.isSame {
			all = append(all, routing.Difference{Path: []string{f.name}, Restricts: f.restricts})
		}
	}
	return append(all, in.Routing.Differences(d.Routing, l.Routing)...)
}

// first returns the item that stands for this one: itself unless it is a duplicate.
func (it *item) first() *item {
	if it.duplicateOf != nil {
		return it.duplicateOf
	}
	return it
}

// result returns the result so far: the final one, or that of the attempt. A duplicate gets the link of the first item,
// by its own fields.
func (it *item) result() Result {
	first := it.first()
	r := first.Result
	if first.pending() {
		r = first.attempt
	}
	switch {
	case it == first:
		return r
	case first.found != nil && first.found.DeletedAt == nil:
		return it.reuse(first.found)
	case r.Link != nil: // created or revived
		return it.reuse(r.Link)
	}
	return Result{Err: r.Err}
}

// reuseFound gives items that have found their link their results. It returns errRetry if a password must be compared
// with that of the link first, which takes too long for a transaction.
func (b *batch) reuseFound(ctx context.Context, conn bun.IDB, items []*item) error {
	if slices.ContainsFunc(b.items, (*item).needsComparison) {
		return errRetry
	}
	if err := b.loadTags(ctx, conn); err != nil {
		return err
	}
	for _, it := range items {
		if it.found != nil {
			it.attempt = it.reuse(it.found)
		}
	}
	return nil
}

// loadTags loads the tags of the links that were found for items with tags.
func (b *batch) loadTags(ctx context.Context, conn bun.IDB) error {
	byID, ids := map[string]*Link{}, []string{}
	for _, it := range b.items {
		if l := it.first().found; it.in.Tags != nil && l != nil && l.tags == nil {
			byID[l.ID], l.tags, ids = l, []string{}, append(ids, l.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var rows []tag
	if err := conn.NewSelect().Model(&rows).Where("link_id IN (?)", bun.In(ids)).Scan(ctx); err != nil {
		return fmt.Errorf("reading tags: %w", err)
	}
	for linkID, tags := range tagsByLink(rows) {
		slices.Sort(tags)
		byID[linkID].tags = tags
	}
	return nil
}

// needsComparison reports whether it is unknown if the password of the item is that of the link that it has found.
func (it *item) needsComparison() bool {
	l, p := it.first().found, it.in.Routing.NewPassword()
	if p == nil || !it.first().pending() || l == nil || l.DeletedAt != nil || !l.Routing.HasPassword() {
		return false
	}
	present := l.Routing.Gate.PasswordID
	return present != it.compared && present != it.draft.Routing.Gate.PasswordID
}

// comparePasswords compares the passwords that reuseFound must know. One that is the same takes the name of the
// present one.
func (b *batch) comparePasswords(ctx context.Context) error {
	for _, it := range b.items {
		if !it.needsComparison() {
			continue
		}
		l := it.first().found
		isSame, err := b.Passwords.Matches(ctx, *l.PasswordHash, it.in.Routing.NewPassword().Text,
			it.call.member.Responsible(), it.call.member.ID())
		if err != nil {
			return err
		}
		if it.compared = l.Routing.Gate.PasswordID; isSame {
			it.draft.Routing.Gate.PasswordID = it.compared
		}
	}
	return nil
}

// sharePassword gives a duplicate with the password of the first item the same name of it.
func (it *item) sharePassword() {
	p, first := it.in.Routing.NewPassword(), it.duplicateOf.in.Routing.NewPassword()
	if p != nil && first != nil && p.Text == first.Text {
		it.draft.Routing.Gate.PasswordID = it.duplicateOf.draft.Routing.Gate.PasswordID
	}
}

// errExistsWithout is the error of a creation that finds its link without the value of a field.
func errExistsWithout(field ...string) *errs.Error {
	return errs.New(errs.Conflict, "The link exists already, without this %s. createLink does not change it: use upsertLink.",
		strings.Join(field, ".")).At(field...)
}
