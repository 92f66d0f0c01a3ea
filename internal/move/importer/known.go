package importer

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
)

// known has the stored state that the rows of a step depend on, with the changes of the step's
// earlier rows.
type known struct {
	*step
	// earlier are rows of the import, by source id, origins those of earlier imports, and links
	// their links by id.
	earlier map[string]*Row
	origins map[string]*Origin
	links   map[string]*link.Link
	// changedBy are the rows of the import that have created or changed a link, by its id.
	changedBy map[string]*Row
	// holders are the owners of codes, by the codes' identities. claimed are rows of a dry run, by
	// the codes and URLs that they would have taken.
	holders map[string]*holder
	claimed map[string]*Row
	// undone are the links of imports that were undone, by claimOfCode of their identities,
	// claimOfExternalID and, with the strategy DETERMINISTIC, claimOfURL.
	undone map[string]*link.Link
}

// loadKnown reads the stored state for the rows of the step.
func (b *step) loadKnown(ctx context.Context) (*known, error) {
	k := &known{
		step: b, earlier: map[string]*Row{}, origins: map[string]*Origin{}, links: map[string]*link.Link{},
		changedBy: map[string]*Row{}, holders: map[string]*holder{}, claimed: map[string]*Row{},
		undone: map[string]*link.Link{},
	}
	var sourceIDs []string
	for _, it := range b.items {
		if it.from.Err == nil && !it.from.Skipped {
			sourceIDs = append(sourceIDs, it.from.SourceID)
		}
	}
	if len(sourceIDs) == 0 {
		return k, nil
	}
	var rows []*Row
	q := b.DB.NewSelect().Model(&rows).Where("source_id IN (?)", bun.In(sourceIDs)).
		Where("outcome NOT IN (?)", bun.In([]Outcome{Skipped, Failed})).Order("number DESC")
	if err := b.DB.Recheck(q, "task_id", b.ID).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading earlier rows of an import: %w", err)
	}
	for _, row := range rows {
		k.earlier[row.SourceID] = row
	}
	var origins []*Origin
	err := b.DB.NewSelect().Model(&origins).Where("workspace_id = ?", b.WorkspaceID).Where("source = ?", b.in.Source).
		Where("label = ?", b.in.Label).Where("source_id IN (?)", bun.In(sourceIDs)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the origins of links: %w", err)
	}
	var linkIDs []string
	for _, o := range origins {
		k.origins[o.SourceID], linkIDs = o, append(linkIDs, o.LinkID)
	}
	links, err := linksBy(ctx, b, "id", linkIDs, "purged_at IS NULL")
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		k.links[l.ID] = l
	}
	if err := k.addChanged(ctx, links); err != nil {
		return nil, err
	}
	if err := b.addHolders(ctx, k, b.items); err != nil {
		return nil, err
	}
	if err := b.addUndone(ctx, k); err != nil {
		return nil, err
	}
	return k, b.addClaims(ctx, k, b.items)
}

// linksBy reads the links of the workspace that meet a condition and have one of the values in a
// column.
func linksBy[V any](
	ctx context.Context, b *step, column string, values []V, where string,
) (links []*link.Link, err error) {
	if len(values) == 0 {
		return nil, nil
	}
	err = b.DB.NewSelect().Model(&links).Where("workspace_id = ?", b.WorkspaceID).
		Where("? IN (?)", bun.Ident(column), bun.In(values)).Where(where).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading links by %s: %w", column, err)
	}
	return links, nil
}

// addChanged reads which rows of the import have created or changed links.
func (k *known) addChanged(ctx context.Context, links []*link.Link) error {
	if len(links) == 0 {
		return nil
	}
	var linkIDs []string
	for _, l := range links {
		linkIDs = append(linkIDs, l.ID)
	}
	var rows []*Row
	q := k.DB.NewSelect().Model(&rows).Where("link_id IN (?)", bun.In(linkIDs)).
		Where("outcome IN (?)", bun.In([]Outcome{Created, Renamed, Updated, Closed})).Order("number DESC")
	if err := k.DB.Recheck(q, "task_id", k.ID).Scan(ctx); err != nil {
		return fmt.Errorf("reading the links of an import: %w", err)
	}
	for _, row := range rows {
		k.changedBy[*row.LinkID] = row
	}
	return nil
}

// addHolders reads which links have the codes of items.
func (b *step) addHolders(ctx context.Context, k *known, items []*item) error {
	var codes []string
	for _, it := range items {
		if it.identity != "" {
			codes = append(codes, it.identity, it.lookupCode())
		}
	}
	var links []*link.Link
	for _, column := range []string{"code", "code_key"} { // with OR, SQLite would read all links of the workspace
		some, err := linksBy(ctx, b, column, codes, "TRUE")
		if err != nil {
			return err
		}
		links = append(links, some...)
	}
	if err := k.addChanged(ctx, links); err != nil {
		return err
	}
	if err := k.noteUndone(ctx, links); err != nil {
		return err
	}
	for _, l := range links {
		if h := k.holders[l.CodeIdentity()]; h != nil && h.linkID == l.ID { // which earlier rows may have changed
			continue
		}
		h := &holder{
			linkID: l.ID, code: l.ShownCode(), canonicalHash: l.CanonicalHash, isDisabled: l.DisabledAt != nil,
			restrictions: restrictionsOf(l.StartsAt, l.ExpiresAt, l.MaxClicks, l.Routing, ""),
			isDeleted:    l.DeletedAt != nil || l.PurgedAt != nil,
			isFixed:      k.changedBy[l.ID] != nil || l.PurgedAt != nil,
			isOutside:    !b.Member.IsInside(l.FolderID),
		}
		if row := k.changedBy[l.ID]; row != nil {
			h.host = row.Host
		}
		for _, identity := range []string{l.CodeIdentity(), l.Code} {
			k.holders[identity] = h
		}
	}
	return nil
}

// lookupCode returns the code of an item as the column of links has it.
func (it *item) lookupCode() string {
	if it.domain != nil {
		return it.identity
	}
	return it.code
}

// factsOf returns the facts about an item.
func (k *known) factsOf(it *item) *facts {
	f := &facts{own: it.own, earlier: k.earlier[it.from.SourceID], origin: k.origins[it.from.SourceID]}
	if f.own != nil {
		f.isHidden = !k.Member.IsInside(f.own.FolderID)
		return f
	}
	if f.origin != nil {
		f.imported, f.changedBy = k.links[f.origin.LinkID], k.changedBy[f.origin.LinkID]
		f.isHidden = f.imported != nil && !k.Member.IsInside(f.imported.FolderID)
	}
	if it.from.ExternalID.To != nil {
		f.externalIDOf = k.claimed[claimOfExternalID(*it.from.ExternalID.To)]
	}
	f.undone, f.again = k.undoneFor(it)
	if it.identity == "" {
		f.sameURL = k.claimed[claimOfURL(it.row.CanonicalHash)]
		f.isRestricted = it.from.restrictions == "" || k.claimed[it.claimOfRestrictions()] != nil
		return f
	}
	for _, identity := range []string{it.lookupCode(), it.identity} { // a link with the exact code wins
		if f.taken == nil {
			f.taken = k.holders[identity]
		}
	}
	return f
}

// add applies the changes of an item, for the rows after it.
func (k *known) add(it *item) {
	switch it.decision.act {
	case creates:
		if it.identity != "" && k.holders[it.identity] == nil {
			k.holders[it.identity] = &holder{code: it.code, canonicalHash: it.row.CanonicalHash, isFixed: true,
				restrictions: it.from.restrictions, isPending: true, isDeleted: it.from.Deleted, host: it.from.Host}
		}
	case changes: // the link keeps its code
		k.changedBy[it.decision.linkID] = it.row
		for _, h := range k.holders {
			if h.linkID == it.decision.linkID {
				h.isFixed, h.canonicalHash, h.restrictions = true, it.row.CanonicalHash, it.from.restrictions
				h.isDeleted, h.host = it.from.Deleted, it.from.Host
			}
		}
	case records:
	default:
		return
	}
	if k.earlier[it.from.SourceID] == nil {
		k.earlier[it.from.SourceID] = it.row
	}
}
