package importer

import (
	"bytes"
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
)

// undoneIDs returns the ids of those links that an import has created and that were deleted when
// the import was undone. Such a link has no origin, and no later version. A repeated import restores
// it.
func (s *Store) undoneIDs(ctx context.Context, links []*link.Link) (map[string]bool, error) {
	undone := map[string]bool{}
	var ids, reverted []string
	for _, l := range links {
		isReverted := l.VersionCause == link.CauseReverted && l.VersionOperation != nil
		if l.DeletedAt == nil || l.PurgedAt != nil || l.DisabledAt != nil ||
			!isReverted && l.VersionCause != link.CauseImported {
			continue
		}
		if ids = append(ids, l.ID); isReverted {
			reverted = append(reverted, l.ID)
		} else {
			undone[l.ID] = true
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	if len(reverted) > 0 {
		var imported []string // by the operation that was undone, which had not found them deleted by members
		err := s.DB.NewSelect().TableExpr("link_versions AS version").Column("version.link_id").
			Join("JOIN links AS linked ON linked.id = version.link_id AND "+
				"linked.version_operation = version.operation_id").
			Where("version.link_id IN (?)", bun.In(reverted)).Where("version.cause = ?", link.CauseImported).
			Where("NOT EXISTS (SELECT 1 FROM link_versions AS before WHERE before.link_id = version.link_id AND "+
				"before.number = version.number - 1 AND "+
				"(before.cause NOT IN (?) OR before.operation_id = version.operation_id))",
				bun.In([]link.Cause{link.CauseImported, link.CauseReverted})).
			Scan(ctx, &imported)
		if err != nil {
			return nil, fmt.Errorf("reading the versions of deleted links: %w", err)
		}
		for _, linkID := range imported {
			undone[linkID] = true
		}
	}
	var remembered []string
	err := s.DB.NewSelect().Model((*Origin)(nil)).Column("link_id").Where("link_id IN (?)", bun.In(ids)).
		Scan(ctx, &remembered)
	if err != nil {
		return nil, fmt.Errorf("reading the origins of deleted links: %w", err)
	}
	for _, linkID := range remembered {
		delete(undone, linkID)
	}
	return undone, nil
}

// noteUndone notes which of the links are those of imports that were undone.
func (k *known) noteUndone(ctx context.Context, links []*link.Link) error {
	ids, err := k.undoneIDs(ctx, links)
	if err != nil {
		return err
	}
	for _, l := range links {
		if !ids[l.ID] || !k.Member.IsInside(l.FolderID) {
			continue
		}
		l.In = k.Member
		k.undone[claimOfCode(l.CodeIdentity())], k.undone[claimOfCode(l.Code)] = l, l
		if l.ExternalID != nil {
			k.undone[claimOfExternalID(*l.ExternalID)] = l
		}
		if l.Strategy == link.Deterministic {
			k.undone[claimOfURL(l.CanonicalHash)] = l
		}
	}
	return nil
}

// addUndone reads the links of imports that were undone which rows without a code are about: those
// with their external ids, or the deterministic ones to their destinations.
func (b *step) addUndone(ctx context.Context, k *known) error {
	var externalIDs []string
	var hashes [][]byte
	for _, it := range b.items {
		switch {
		case it.identity != "" || len(it.row.CanonicalHash) == 0:
		case it.from.ExternalID.To != nil:
			externalIDs = append(externalIDs, *it.from.ExternalID.To)
		case b.isDeterministic(it):
			hashes = append(hashes, it.row.CanonicalHash)
		}
	}
	links, err := linksBy(ctx, b, "external_id", externalIDs, "deleted_at IS NOT NULL")
	if err != nil {
		return err
	}
	// the condition of an index
	some, err := linksBy(ctx, b, "canonical_hash", hashes, "deleted_at IS NOT NULL AND strategy = 'DETERMINISTIC'")
	if err != nil {
		return err
	}
	links = append(links, some...)
	if err := k.addChanged(ctx, links); err != nil {
		return err
	}
	return k.noteUndone(ctx, links)
}

// isDeterministic reports whether the link of an item without a code has that of its destination.
func (b *step) isDeterministic(it *item) bool {
	return !it.from.Deleted && it.domain == nil && b.Member.Workspace().DefaultStrategy == string(link.Deterministic)
}

// undoneFor returns the link of an import that was undone which an item repeats; nil if there is
// none. again is the row of this import that has had it work again.
func (k *known) undoneFor(it *item) (l *link.Link, again *Row) {
	switch {
	case it.identity != "":
		if l = k.undone[claimOfCode(it.lookupCode())]; l == nil {
			l = k.undone[claimOfCode(it.identity)]
		}
	case it.from.ExternalID.To != nil:
		l = k.undone[claimOfExternalID(*it.from.ExternalID.To)]
	case k.isDeterministic(it):
		l = k.undone[claimOfURL(it.row.CanonicalHash)]
	}
	if l == nil {
		return nil, nil
	}
	return l, k.changedBy[l.ID]
}

// undoneBy returns the link of an import that was undone which has the code of a candidate for the
// code of an item, and its destination; nil if there is none. Others with the code are those of
// other rows, whose repetition finds them.
func (k *known) undoneBy(candidate *item) *link.Link {
	l, again := k.undoneFor(candidate)
	if l == nil || again != nil || !bytes.Equal(l.CanonicalHash, candidate.row.CanonicalHash) {
		return nil
	}
	return l
}

// withoutUndone removes the links of imports that were undone: to an archive, they are other links.
func (s *Store) withoutUndone(ctx context.Context, links []*link.Link) ([]*link.Link, error) {
	undone, err := s.undoneIDs(ctx, links)
	if err != nil {
		return nil, err
	}
	var others []*link.Link
	for _, l := range links {
		if !undone[l.ID] {
			others = append(others, l)
		}
	}
	return others, nil
}
