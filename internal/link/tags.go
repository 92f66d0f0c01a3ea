package link

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// tag is a tag of a link.
type tag struct {
	bun.BaseModel `bun:"table:link_tags"`

	WorkspaceID string `bun:",pk"`
	Tag         string `bun:",pk"`
	LinkID      string `bun:",pk"`
}

// writeTags replaces the tags of the links whose tags are not nil.
func (s *Store) writeTags(ctx context.Context, tx bun.Tx, rows []*record) error {
	var tags []tag
	var stale []string
	for _, r := range rows {
		if r.Tags != nil {
			stale = append(stale, r.ID)
		}
		tags = append(tags, r.tagRows()...)
	}
	if len(stale) > 0 {
		if _, err := tx.NewDelete().Model((*tag)(nil)).Where("link_id IN (?)", bun.In(stale)).Exec(ctx); err != nil {
			return fmt.Errorf("removing tags: %w", err)
		}
	}
	return insertTags(ctx, tx, tags)
}

// storedTags returns the sorted tags of the links of changes before they are written.
func (s *Store) storedTags(ctx context.Context, tx bun.Tx, rewrites []Rewrite) (map[string][]string, error) {
	ids := make([]string, 0, len(rewrites))
	for _, c := range rewrites {
		if c.Before.WorkspaceID != id.PublicWorkspace {
			ids = append(ids, c.Before.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return readTags(ctx, tx.NewSelect(), ids)
}

// readTags returns the sorted tags of links by the links' ids.
func readTags(ctx context.Context, q *bun.SelectQuery, linkIDs []string) (map[string][]string, error) {
	var rows []tag
	if err := q.Model(&rows).Where("link_id IN (?)", bun.In(linkIDs)).Order("link_id", "tag").Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading tags: %w", err)
	}
	tags := map[string][]string{}
	for _, row := range rows {
		tags[row.LinkID] = append(tags[row.LinkID], row.Tag)
	}
	return tags, nil
}

func (l *Link) tagRows() (rows []tag) {
	for _, name := range l.Tags {
		rows = append(rows, tag{WorkspaceID: l.WorkspaceID, Tag: name, LinkID: l.ID})
	}
	return rows
}

func insertTags(ctx context.Context, tx bun.Tx, tags []tag) error {
	if err := db.InsertRows(ctx, tx, db.Insert{}, tags); err != nil {
		return fmt.Errorf("adding tags: %w", err)
	}
	return nil
}

// TagsOf returns the sorted tags of links by the links' ids. Links without tags are omitted.
func (s *Store) TagsOf(ctx context.Context, m workspace.Membership, linkIDs ...string) (map[string][]string, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	return readTags(ctx, s.DB.Recheck(s.DB.NewSelect(), "workspace_id", m.ID()), linkIDs)
}

// LoadTags loads the sorted tags of links, unless they are known.
func LoadTags(ctx context.Context, conn bun.IDB, links ...*Link) error {
	byID := map[string][]*Link{}
	for _, l := range links {
		if l.Tags == nil {
			byID[l.ID], l.Tags = append(byID[l.ID], l), []string{}
		}
	}
	if len(byID) == 0 {
		return nil
	}
	found, err := readTags(ctx, conn.NewSelect(), slices.Collect(maps.Keys(byID)))
	if err != nil {
		return err
	}
	for linkID, tags := range found {
		for _, l := range byID[linkID] {
			l.Tags = tags
		}
	}
	return nil
}
