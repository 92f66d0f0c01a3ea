package link

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// grantRow counts the redirects of a subject, a link or a target, that has a maximum or had one.
// Package hitquota counts them; this package writes the maximum.
type grantRow struct {
	bun.BaseModel `bun:"table:grants"`

	SubjectID   string `bun:",pk"`
	LinkID      string
	WorkspaceID string
	// MaxClicks is nil if there is no maximum any more: the row stays, so that a later one
	// continues the count.
	MaxClicks *int64
	Granted   int64
	// ClicksBefore are those of a link before it was purged, which do not count.
	ClicksBefore int64
}

// LoadGranted sets Granted of links with MaxClicks. Most links have none, and need no statement.
func LoadGranted(ctx context.Context, conn bun.IDB, links ...*Link) error {
	limited := slices.DeleteFunc(slices.Clone(links), func(l *Link) bool { return l.MaxClicks == nil })
	ids := make([]string, len(limited))
	for i, l := range limited {
		ids[i] = l.ID
	}
	granted, err := GrantedBy(ctx, conn, ids)
	for _, l := range limited {
		l.Granted = granted[l.ID]
	}
	return err
}

// GrantedBy returns how many redirects links and targets have granted. Those without a row are
// omitted.
func GrantedBy(ctx context.Context, conn bun.IDB, subjects []string) (map[string]int64, error) {
	if len(subjects) == 0 {
		return nil, nil
	}
	var rows []grantRow
	err := conn.NewSelect().Model(&rows).Column("subject_id", "granted").Where("subject_id IN (?)", bun.In(subjects)).
		Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading grants: %w", err)
	}
	granted := make(map[string]int64, len(rows))
	for _, row := range rows {
		granted[row.SubjectID] = row.Granted
	}
	return granted, nil
}

// writeGrants writes the maxima of links and of their targets that have changed. A transition to
// exhaustion is recorded again if the new maximum is not reached. A link that had no maximum has
// counted no redirects: its count begins with its clicks, which Granted has.
func writeGrants(ctx context.Context, tx bun.Tx, rewrites []Rewrite) error {
	var rows []grantRow
	var recounted []string
	for _, c := range rewrites {
		rows = append(rows, c.grants()...)
		if c.Before.ID != "" && c.Before.MaxClicks == nil && c.After.MaxClicks != nil {
			recounted = append(recounted, c.After.ID)
		}
	}
	if len(recounted) > 0 { // users cannot change granted
		if _, err := tx.NewDelete().Model((*grantRow)(nil)).Where("subject_id IN (?)", bun.In(recounted)).
			Exec(ctx); err != nil {
			return fmt.Errorf("removing the grants of links: %w", err)
		}
	}
	// Sorted by ID, as when grants are returned, so that neither deadlocks.
	slices.SortFunc(rows, func(a, b grantRow) int { return strings.Compare(a.SubjectID, b.SubjectID) })
	const raise = "ON CONFLICT (subject_id) DO UPDATE SET max_clicks = excluded.max_clicks, " +
		"workspace_id = excluded.workspace_id, " +
		"exhausted_at = CASE WHEN grants.granted >= excluded.max_clicks THEN grants.exhausted_at END"
	if err := db.InsertRows(ctx, tx, db.Insert{Rest: raise}, rows); err != nil {
		return fmt.Errorf("writing the maxima of links and targets: %w", err)
	}
	return nil
}

// grants returns the rows of the link and its targets whose maximum differs after the write.
func (c *Rewrite) grants() (rows []grantRow) {
	before, after := c.Before.maxima(), c.After.maxima()
	for subject := range before {
		if _, ok := after[subject]; !ok && !c.After.isPendingTarget(subject) {
			after[subject] = nil
		}
	}
	for subject, maxClicks := range after {
		if c.Before.WorkspaceID == c.After.WorkspaceID && optional.Equal(before[subject], maxClicks) {
			continue
		}
		row := grantRow{SubjectID: subject, LinkID: c.After.ID, WorkspaceID: c.After.WorkspaceID, MaxClicks: maxClicks}
		if subject == c.After.ID {
			if row.Granted = c.After.Granted; c.Before.PurgedAt != nil {
				row.ClicksBefore = c.Before.Granted
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// maxima returns the maximum of the link and those of its targets, by their ids.
func (l *Link) maxima() map[string]*int64 {
	maxima := l.Routing.MaxClicks()
	if l.MaxClicks != nil {
		maxima[l.ID] = l.MaxClicks
	}
	return maxima
}

// isPendingTarget reports whether a pending change sets a maximum of the target, which must hold
// from its instant on.
func (l *Link) isPendingTarget(target string) bool {
	for _, c := range l.states() {
		if _, ok := c.after.Routing.MaxClicks()[target]; ok {
			return true
		}
	}
	return false
}
