package creation

import (
	"bytes"
	"cmp"
	"errors"
	"strings"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/folder"
)

// kind is the kind of a proposal.
type kind int

const (
	creations kind = iota
	upserts        // change a link that exists
	imports        // leave a link deleted that was deleted here
)

// proposal is a requested link.
type proposal struct {
	kind kind
	in   *Input
	// draft is the link that in describes.
	draft *link.Link
	// compared is the password id of the existing link whose password was compared with the
	// draft's. If they were equal, the draft has the id too.
	compared string
}

// facts are the inputs of a decision about a proposal. The links are in any state.
type facts struct {
	// refused is why the destination is not allowed; nil if it is.
	refused *errs.Error
	// lacksFolder means that the folder of the draft does not exist.
	lacksFolder bool
	// same is the link that equal requests share: the deterministic link for the URL, or the one
	// with both the code and the URL. ofCode has the code that the caller chose, in any case if the
	// workspace wants that, and ofID the external id.
	same, ofCode, ofID *link.Link
	// outside is the error of a link among these that the caller must not see; nil if there is
	// none.
	outside *errs.Error
	// isTaken means that the code of the draft belongs to another link, and hasNextCode that
	// another one can be tried.
	isTaken, hasNextCode bool
	// mayNotRevive means that the caller may create links and change none.
	mayNotRevive bool
	// overQuota is the error of a workspace that may create no more links; nil if it may.
	overQuota *errs.Error
}

// decision is what to do for a proposal.
type decision struct {
	act act
	// link is the existing link that the decision is about; nil if there is none.
	link *link.Link
	// ignored are the fields of the input that the link has otherwise, see Result.Ignored.
	ignored []string
	// dropped are the restrictions that the link loses, see Result.Dropped.
	dropped []string
	// err is why the proposal is refused.
	err *errs.Error
}

// act is the kind of a decision.
type act string

const (
	inserts   act = "insert"
	triesNext act = "try the next code"
	returns   act = "return"  // the existing link
	revives   act = "revive"  // the deleted link, with the fields of the draft
	changes   act = "change"  // the existing link, to the fields of the upsert
	compares  act = "compare" // the password with that of the existing link, then decide again
	refuses   act = "refuse"
)

// decide returns what to do for a proposal. This is the contract of creating links: creation is
// idempotent, changes an existing link only by an upsert, and returns none to a caller who wanted
// another one.
func decide(p *proposal, f *facts) decision {
	switch l := f.same; {
	case f.refused != nil:
		return refuse(f.refused)
	case f.lacksFolder:
		return refuse(folder.ErrUnknown())
	case f.outside != nil:
		return refuse(f.outside)
	case p.kind == upserts && f.ofID != nil:
		return decision{act: changes, link: f.ofID}
	case p.kind == upserts && cmp.Or(l, f.ofCode) != nil:
		return p.adopt(cmp.Or(l, f.ofCode))
	case l != nil && l.DisabledAt != nil:
		return refuse(link.ErrDisabled().At("url"))
	case l != nil && l.PurgedAt == nil && p.draft.ExternalID != nil &&
		!optional.Equal(p.draft.ExternalID, l.ExternalID):
		return refuse(errExistsWithout("externalId"))
	case f.ofID != nil && (l == nil || f.ofID.ID != l.ID):
		return refuse(link.ErrExternalIDTaken())
	case l != nil && l.DeletedAt != nil && l.PurgedAt == nil && p.kind == imports:
		return refuse(errs.New(errs.Conflict, "The link was deleted here. Restore it first.").Because(ErrDeleted))
	case l != nil && l.DeletedAt != nil && f.mayNotRevive:
		return refuse(errMayNotRevive(p.draft.Strategy))
	case l != nil && l.DeletedAt != nil:
		return decision{act: revives, link: l, dropped: p.dropped(l)}
	case l != nil && p.isUnsure(l):
		return decision{act: compares, link: l}
	case l != nil:
		return p.reuse(l)
	case f.ofCode != nil:
		return refuse(link.ErrCodeTaken(f.ofCode))
	case f.isTaken && !f.hasNextCode:
		return refuse(errNoCode(p.draft.Strategy))
	case f.isTaken:
		return decision{act: triesNext}
	case f.overQuota != nil:
		return refuse(f.overQuota)
	}
	return decision{act: inserts}
}

func refuse(err *errs.Error) decision { return decision{act: refuses, err: err} }

// adopt decides about the upsert of a link without its external id.
func (p *proposal) adopt(l *link.Link) decision {
	switch {
	case l.DisabledAt != nil:
		return refuse(link.ErrDisabled().At("url"))
	case l.ExternalID != nil:
		return refuse(errOfOther(p.draft.Strategy, withOtherID))
	case p.in.Strategy != nil && *p.in.Strategy != l.Strategy:
		return refuse(errOtherStrategy(l))
	case l.PurgedAt == nil:
		return decision{act: changes, link: l}
	case !bytes.Equal(l.CanonicalHash, p.draft.CanonicalHash): // only its code is the same
		return refuse(link.ErrCodeTaken(l))
	}
	return decision{act: revives, link: l}
}

// isUnsure reports whether it is unknown if the password of the draft is that of a link. Upserts set
// theirs.
func (p *proposal) isUnsure(l *link.Link) bool {
	if p.kind == upserts || p.in.Fields.Routing.To.NewPassword() == nil || !l.Routing.HasPassword() {
		return false
	}
	present := l.Routing.Gate.PasswordID
	return present != p.compared && present != p.draft.Routing.Gate.PasswordID
}

// reuse decides about a link that exists: it is returned with the given fields that it ignores, or
// refused if such a field restricts which visitors get the destination, or when.
func (p *proposal) reuse(l *link.Link) decision {
	d := decision{act: returns, link: l}
	for _, field := range p.differences(l) {
		if field.Restricts {
			return decision{act: refuses, link: l, err: errExistsWithout(field.Path...)}
		}
		d.ignored = append(d.ignored, strings.Join(field.Path, "."))
	}
	return d
}

// differences returns the given fields that an existing link has otherwise. Its tags are loaded if
// some are given.
func (p *proposal) differences(l *link.Link) (all []check.Difference) {
	for _, f := range linkfield.Fields {
		isCompared := *f.IsSet(&p.in.Fields) && f.Name != "externalId" && f.Name != "routing"
		if isCompared && !f.IsSame(&p.draft.Values, &l.Values) {
			all = append(all, check.Difference{Path: []string{f.Name}, Restricts: f.Restricts})
		}
	}
	return append(all, check.Differences(p.in.Fields.Routing.To, p.draft.Routing, l.Routing)...)
}

// dropped returns the restrictions of a deleted link that the draft which revives it does not have.
// Those of a purged link are unknown.
func (p *proposal) dropped(l *link.Link) (fields []string) {
	before, after := routing.OrDefaults(l.Routing), routing.OrDefaults(p.draft.Routing)
	gate, newGate := optional.Value(before.Gate), optional.Value(after.Gate)
	for _, f := range []struct {
		name     string
		had, has bool
	}{
		{"startsAt", l.StartsAt != nil, p.draft.StartsAt != nil},
		{"expiresAt", l.ExpiresAt != nil, p.draft.ExpiresAt != nil},
		{"maxClicks", l.MaxClicks != nil, p.draft.MaxClicks != nil},
		{"routing.gate.password", gate.HasPassword(), newGate.HasPassword()},
		{"routing.gate.notice", gate.Notice != nil, newGate.Notice != nil},
		{"routing.gate.confirm", gate.Confirm, newGate.Confirm},
		{"routing.rules", len(before.Rules) > 0, len(after.Rules) > 0},
		{"routing.bots", before.Bots != routing.RedirectBots, after.Bots != routing.RedirectBots},
	} {
		if f.had && !f.has {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// errOutside returns the error for the links that a proposal finds outside of the fence of its API
// key; nil if there are none. It says nothing about them but that they exist.
func errOutside(p *proposal, f *facts, isInside func(folderID *string) bool) *errs.Error {
	isOutside := func(l *link.Link) bool { return l != nil && l.PurgedAt == nil && !isInside(l.FolderID) }
	switch {
	case isOutside(f.ofID):
		return link.ErrExternalIDTaken()
	case isOutside(f.same) || isOutside(f.ofCode):
		return errOfOther(p.draft.Strategy, "outside of the folders of the API key")
	}
	return nil
}

// ErrDeleted is why an import gets no link: the one that it describes was deleted.
var ErrDeleted = errors.New("the link was deleted")

// errExistsWithout is the error of a creation that finds its link without the value of a field.
func errExistsWithout(field ...string) *errs.Error {
	return errs.New(errs.Conflict, "The link exists already, without this %s. createLink does not change it: use "+
		"upsertLink.", strings.Join(field, ".")).At(field...)
}

// withOtherID describes a link that an upsert finds by its URL or code.
const withOtherID = "with another externalId"

// errOfOther is the error of a proposal whose URL or code belongs to a link that it cannot return.
func errOfOther(strategy link.Strategy, described string) *errs.Error {
	if strategy == link.Custom {
		return errs.New(errs.CodeTaken, "The code belongs to a link %s. Choose another code.", described).
			At("customCode")
	}
	return errs.New(errs.Conflict,
		"The URL belongs to a link %s. Use the strategy RANDOM or COUNTER for another link to it.", described).
		At("url")
}

// errMayNotRevive is the error of a proposal whose link a member has deleted, or that has ended and
// was purged: the caller must not undo that, nor what restricted the link.
func errMayNotRevive(strategy link.Strategy) *errs.Error {
	field, remedy := "url", "Or use the strategy RANDOM or COUNTER for another link to it."
	if strategy == link.Custom {
		field, remedy = "customCode", "Or choose another code."
	}
	return errs.New(errs.Conflict, "The link was deleted. Reviving it requires the permission LINKS_WRITE. %s", remedy).
		At(field)
}

// errOtherStrategy is the error of an upsert that requires another strategy than that of its link.
func errOtherStrategy(l *link.Link) *errs.Error {
	return errs.New(errs.Immutable, "The link of this upsert has the strategy %s, which cannot change.", l.Strategy).
		At("strategy")
}

// errNoCode is the error of a draft that has run out of codes.
func errNoCode(strategy link.Strategy) *errs.Error {
	switch strategy {
	case link.Custom:
		return errs.New(errs.CodeTaken, "The code is used for another URL. Choose another code.").At("customCode")
	case link.Random:
		return errs.New(errs.CodeExhausted, "The %d random codes that were tried are taken. Try again, or use the "+
			"strategy COUNTER.", randomAttempts).At("strategy")
	}
	return errs.New(errs.CodeExhausted, "All %d codes of this URL are taken in the workspace. Choose a customCode, or "+
		"use the strategy COUNTER or RANDOM.", shortcode.Salts).At("url")
}
