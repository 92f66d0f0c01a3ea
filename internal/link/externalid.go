package link

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// idEdit is an edit that changes the external id of a link; nil removes it.
type idEdit struct {
	linkID     string
	edit       int
	externalID *string
	// previous is that of an earlier edit of the link; nil if there is none.
	previous *idEdit
}

// takenExternalIDs returns which of the edits fail because another link keeps the external id, or
// gets it by an earlier edit. A link whose edit fails keeps its id in turn. locked are the links of
// the batch.
func (s *Store) takenExternalIDs(
	ctx context.Context, conn bun.IDB, m workspace.Membership, idEdits []*idEdit, locked map[string]*Link,
) (failed []int, err error) {
	last, wanted := map[string]*idEdit{}, map[string]bool{}
	for _, c := range idEdits {
		c.previous, last[c.linkID] = last[c.linkID], c
		if c.externalID != nil {
			wanted[*c.externalID] = true
		}
	}
	holders, err := holdersOf(ctx, conn, m, "external_id", slices.Collect(maps.Keys(wanted)))
	if err != nil {
		return nil, err
	}
	for {
		lost := lostIDEdits(idEdits, last, holders, locked)
		if len(lost) == 0 {
			return failed, nil
		}
		for _, c := range lost {
			failed, last[c.linkID] = append(failed, c.edit), c.previous
		}
	}
}

// lostIDEdits returns those of the last edits whose external id another link has.
func lostIDEdits(
	idEdits []*idEdit, last map[string]*idEdit, holders map[string]string, locked map[string]*Link,
) (lost []*idEdit) {
	given := map[string]bool{}
	for _, c := range idEdits {
		if last[c.linkID] != c || c.externalID == nil {
			continue
		}
		if given[*c.externalID] || isHeld(holders[*c.externalID], c, last, locked) {
			lost = append(lost, c)
		}
		given[*c.externalID] = true
	}
	return lost
}

// isHeld reports whether the holder of the external id of an edit is another link, and still has it
// after the batch.
func isHeld(holder string, c *idEdit, last map[string]*idEdit, locked map[string]*Link) bool {
	switch {
	case holder == "" || holder == c.linkID:
		return false
	case locked[holder] == nil || last[holder] == nil:
		return true
	}
	return optional.Equal(last[holder].externalID, c.externalID)
}

// holdersOf returns the ids of the links that have the values in a unique column, by the values.
func holdersOf(
	ctx context.Context, conn bun.IDB, m workspace.Membership, column string, values []string,
) (map[string]string, error) {
	if len(values) == 0 {
		return nil, nil
	}
	var rows []struct{ Value, ID string }
	err := conn.NewSelect().Model((*Link)(nil)).ColumnExpr("? AS value, id", bun.Ident(column)).
		Where("workspace_id = ?", m.ID()).
		Where("? IN (?)", bun.Ident(column), bun.In(values)).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("looking up links by %s: %w", column, err)
	}
	holders := make(map[string]string, len(rows))
	for _, row := range rows {
		holders[row.Value] = row.ID
	}
	return holders, nil
}

// releaseExternalIDs removes external ids that other links of the same statement get: the unique
// index compares each row as it is written.
func releaseExternalIDs(ctx context.Context, tx bun.Tx, rewrites []Rewrite) error {
	wanted := map[string]bool{}
	for _, c := range rewrites {
		if c.After.ExternalID != nil && !optional.Equal(c.Before.ExternalID, c.After.ExternalID) {
			wanted[*c.After.ExternalID] = true
		}
	}
	var released []string
	for _, c := range rewrites {
		if c.Before.ExternalID != nil && wanted[*c.Before.ExternalID] {
			released = append(released, c.After.ID)
		}
	}
	if len(released) == 0 {
		return nil
	}
	_, err := tx.NewUpdate().Model((*Link)(nil)).Set("external_id = NULL").Where("id IN (?)", bun.In(released)).
		Exec(ctx)
	if err != nil {
		return fmt.Errorf("releasing external ids: %w", err)
	}
	return nil
}

// ErrExternalIDTaken refuses an external id that another link of the workspace has.
func ErrExternalIDTaken() *errs.Error {
	return errs.New(errs.ExternalIDTaken,
		"Another link of the workspace has this externalId. Choose another one, or look "+
			"up the link by it.").At("externalId")
}
