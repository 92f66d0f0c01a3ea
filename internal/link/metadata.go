package link

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// metadataRow is a pair in the table that filters use.
type metadataRow struct {
	bun.BaseModel `bun:"table:link_metadata"`

	LinkID      string `bun:",pk"`
	Key         string `bun:",pk"`
	WorkspaceID string
	Value       string
}

// writeMetadata replaces the pairs of links whose metadata has changed.
func writeMetadata(ctx context.Context, tx bun.Tx, rewrites []Rewrite) error {
	var stale []string
	var rows []metadataRow
	for _, c := range rewrites {
		if c.Before.Metadata == c.After.Metadata {
			continue
		}
		if c.Before.Metadata != "" {
			stale = append(stale, c.After.ID)
		}
		pairs, err := c.After.Metadata.Pairs()
		if err != nil {
			return err
		}
		for _, p := range pairs {
			rows = append(rows,
				metadataRow{LinkID: c.After.ID, Key: p.Key, WorkspaceID: c.After.WorkspaceID, Value: p.Value})
		}
	}
	if len(stale) > 0 {
		_, err := tx.NewDelete().Model((*metadataRow)(nil)).Where("link_id IN (?)", bun.In(stale)).Exec(ctx)
		if err != nil {
			return fmt.Errorf("removing metadata: %w", err)
		}
	}
	if err := db.InsertRows(ctx, tx, db.Insert{}, rows); err != nil {
		return fmt.Errorf("adding metadata: %w", err)
	}
	return nil
}
