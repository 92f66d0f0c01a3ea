package importer

import (
	"bytes"
	"strings"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// facts are the inputs of the decision about a row.
type facts struct {
	// own is the link that an archive has a record of; nil if it is none of this workspace.
	own *own
	// earlier is a row of the same import with the same source id.
	earlier *Row
	// origin is that of an earlier import of the row, and imported its link; nil if there is none,
	// or if it was purged.
	origin   *Origin
	imported *link.Link
	// isHidden means that own, or the link of an earlier import, does not exist for the caller, and
	// changedBy is a row of the same import that has created or changed it.
	isHidden  bool
	changedBy *Row
	// taken is the link, or the earlier row of a dry run, that occupies the code.
	taken *holder
	// undone is the link that an import of the row had created before it was undone. again is a row
	// of the same import that has had it work again.
	undone *link.Link
	again  *Row
	// externalIDOf and sameURL are earlier rows of a dry run that would have the external id, or
	// the destination without a code.
	externalIDOf, sameURL *Row
	// isRestricted means that sameURL would have the restrictions of the row, if that has any.
	isRestricted bool
}

// holder is a link, or a row of a dry run, that occupies a code.
type holder struct {
	// linkID is empty for a row of this step or of a dry run.
	linkID, code  string
	canonicalHash []byte
	// restrictions are those of the link, see restrictionsOf.
	restrictions string
	// isPending means that the same step creates the link.
	isPending bool
	// isDisabled and isDeleted are states of the link. isFixed means that the import must not
	// replace it: it has created or changed the link itself, or the URL was purged. isOutside means
	// that the link does not exist for the caller.
	isDisabled, isDeleted, isFixed, isOutside bool
	// host is that of the row, if the import has created or changed the link.
	host string
}

// isLink reports whether the link is the one that a row describes, as far as the caller can see: it
// redirects to the destination, and has the restrictions of the row, if that has any. A password is
// not compared.
func (h *holder) isLink(from *source, canonicalHash []byte) bool {
	return bytes.Equal(h.canonicalHash, canonicalHash) && !from.Deleted && !h.isDeleted && !h.isDisabled &&
		!h.isOutside &&
		(from.restrictions == "" || from.restrictions == h.restrictions && from.Routing.To.NewPassword() == nil)
}

// act is what to do for a row.
type act string

const (
	creates act = "create"
	changes act = "change"        // the link of an earlier import, or with onConflict REPLACE the one that has the code
	records act = "record origin" // of a link that is as it has to be
	renames act = "try the next code"
	leaves  act = "leave"
)

// decision is what to do for a row.
type decision struct {
	act act
	// linkID is the existing link, and code its code; empty for none.
	linkID, code string
	// isReplaced means that the row replaces all fields of an existing link.
	isReplaced bool
	outcome    Outcome
	// err is why a row is left.
	err *errs.Error
}

// decide returns what to do for a row. canonicalHash is the hash of its destination. This is the
// contract of imports: a row is recognized by its source id, changes made here survive unless the
// row changes at its source, and an existing code keeps its destination unless onConflict is
// REPLACE.
func decide(row *source, canonicalHash []byte, f *facts, onConflict ConflictPolicy) decision {
	isSame := f.taken != nil && f.taken.isLink(row, canonicalHash)
	switch {
	case row.Skipped:
		return decision{act: leaves, outcome: Skipped, err: row.Err}
	case row.Err != nil:
		return decision{act: leaves, outcome: Failed, err: row.Err}
	case f.own != nil && f.isHidden:
		return decision{act: leaves, outcome: Skipped,
			err: errs.New(errs.Conflict, "The link itself is in this workspace, and you cannot see it.")}
	case f.own != nil && row.Record != nil && row.Record.IsSame(f.own.record):
		return decision{act: leaves, outcome: Unchanged}
	case f.own != nil:
		return decision{act: leaves, outcome: Skipped, err: errs.New(errs.Conflict,
			"The link itself is in this workspace, and has changed since. Its versions have its earlier states.")}
	case f.earlier != nil && !bytes.Equal(f.earlier.Hash, row.hash):
		return decision{act: leaves, outcome: Failed, err: errs.New(errs.Conflict,
			"Line %d has the same source id and other values.", f.earlier.Line)}
	case f.earlier != nil:
		return decision{act: leaves, outcome: Unchanged}
	case f.isHidden:
		return decision{act: leaves, outcome: Skipped, err: errs.New(errs.Conflict,
			"The row was imported before, to a link that you cannot see.")}
	case f.imported != nil && f.imported.DeletedAt != nil && !row.Deleted:
		return decision{act: leaves, outcome: Skipped, err: errs.New(errs.Conflict,
			"The link of an earlier import was deleted here. Restore it first.")}
	// an origin from an archive has no hash
	case f.imported != nil && (bytes.Equal(f.origin.Hash, row.hash) || len(f.origin.Hash) == 0):
		return decision{act: records, linkID: f.imported.ID, code: f.imported.ShownCode(), outcome: Unchanged}
	case f.imported != nil && f.changedBy != nil:
		return decision{act: leaves, outcome: Failed, err: errs.New(errs.Conflict,
			"Line %d has changed the same link.", f.changedBy.Line)}
	case f.externalIDOf != nil:
		return decision{act: leaves, outcome: Failed, err: link.ErrExternalIDTaken()}
	case f.imported != nil:
		return decision{act: changes, linkID: f.imported.ID, outcome: Updated}
	case f.undone != nil && f.again != nil && f.taken == nil && row.restrictions == "":
		return decision{act: records, linkID: f.undone.ID, code: f.undone.ShownCode(), outcome: Unchanged}
	case f.undone != nil && f.again == nil:
		return decision{act: changes, linkID: f.undone.ID, isReplaced: true, outcome: Created}
	case f.sameURL != nil && !row.Deleted && !f.isRestricted: // package creation refuses the row
		return decision{act: leaves, outcome: Failed, err: errs.New(errs.Conflict,
			"Line %d has the same destination, without these restrictions.", f.sameURL.Line)}
	case f.sameURL != nil && !row.Deleted: // package creation returns that link
		return decision{act: leaves, outcome: Unchanged}
	case f.taken == nil:
		return decision{act: creates, outcome: Created}
	case isSame && f.taken.isPending: // package creation returns that link
		return decision{act: creates, outcome: Created}
	case isSame && f.taken.linkID == "":
		return decision{act: leaves, code: f.taken.code, outcome: Unchanged}
	case isSame:
		return decision{act: records, linkID: f.taken.linkID, code: f.taken.code, outcome: Unchanged}
	case onConflict == Rename:
		return decision{act: renames}
	case onConflict == Replace && !f.taken.isDisabled && !f.taken.isFixed && !f.taken.isOutside:
		return decision{act: changes, linkID: f.taken.linkID, isReplaced: true, outcome: Updated}
	case onConflict == Replace:
		return decision{act: leaves, outcome: Failed, err: f.taken.err(row)}
	}
	return decision{act: leaves, outcome: Skipped, err: f.taken.err(row)}
}

// err is why a row cannot have the code of the holder, and how it can.
func (h *holder) err(row *source) *errs.Error {
	switch {
	case h.code != row.Code && strings.EqualFold(h.code, row.Code):
		return errs.New(errs.CodeTaken, "Another link has this code in other case, %s. Where both are links, a domain "+
			"with codeSpace: OWN and caseSensitive: true can have both.", h.code).At("code")
	case h.host != row.Host && h.host != "" && row.Host != "":
		return errs.New(errs.CodeTaken, "Another link of this import has this code, at the host %s. Domains with "+
			"codeSpace: OWN, one for each host, can have both.", h.host).At("code")
	}
	return errCodeTaken()
}

func errCodeTaken() *errs.Error {
	return errs.New(errs.CodeTaken, "Another link has this code.").At("code")
}
