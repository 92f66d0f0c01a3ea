package link

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/check"
)

// StatementBytes bounds the text in one statement, and with it the memory of a batch.
const StatementBytes = 1 << 20

// insertNew omits the columns that have the default of the database in every new link.
var insertNew = db.Insert{
	Without: []string{
		"deleted_at", "disabled_at", "ended_at", "purged_at", "started_at", "expired_at", "destination_status",
		"last_checked_at", "check_failures", "version", "version_starts_at", "next_change_at",
	},
	Rest: "ON CONFLICT DO NOTHING RETURNING id",
}

// Insert inserts new links and returns the ids of those that no unique index refused. It inserts in
// the order of codes, which are unique over the instance, so that transactions do not deadlock.
func Insert(ctx context.Context, tx bun.Tx, links []*Link) (ids []string, err error) {
	records := make([]*record, 0, len(links))
	for _, l := range links {
		records = append(records, recordOf(l))
	}
	slices.SortFunc(records, func(a, b *record) int { return strings.Compare(a.Code, b.Code) })
	for chunk := range statements(records) {
		var inserted []string
		if err := db.InsertReturning(ctx, tx, insertNew, chunk, &inserted); err != nil {
			return nil, err
		}
		ids = append(ids, inserted...)
	}
	return ids, nil
}

// RecordNew writes what belongs to links that Insert has inserted: tags, metadata, URLs, grants and
// events. Links without an account have no events.
func (s *Store) RecordNew(ctx context.Context, tx bun.Tx, links []*Link) error {
	var tags []tag
	var events []*audit.Event
	created := make([]Rewrite, 0, len(links))
	for _, l := range links {
		tags, created = append(tags, l.tagRows()...), append(created, Rewrite{Before: &Link{}, After: l})
		if !l.In.IsPublic() {
			event := l.In.Event(l.CreatedAt, audit.LinkCreated, l.ID, nil).WithVersion(1, nil)
			events = append(events, event.WithOperation(l.VersionOperation))
		}
	}
	if err := insertTags(ctx, tx, tags); err != nil {
		return err
	}
	if err := s.writeDerived(ctx, tx, created); err != nil {
		return err
	}
	return audit.Write(ctx, tx, events...)
}

// statements divides rows so that the text of each part fits into a statement.
func statements(rows []*record) iter.Seq[[]*record] {
	return func(yield func([]*record) bool) {
		for len(rows) > 0 {
			n, size := 1, rows[0].size()
			for n < len(rows) && size+rows[n].size() <= StatementBytes {
				size += rows[n].size()
				n++
			}
			if !yield(rows[:n]) {
				return
			}
			rows = rows[n:]
		}
	}
}

// size returns about how many bytes the texts of the row have.
func (r *record) size() int {
	size := len(r.OriginalURL) + len(r.CanonicalURL) + len(optional.Value(r.Title)) + len(optional.Value(r.Note)) +
		len(r.Search) + len(r.Metadata) + 512
	if r.Routing != nil {
		size += check.MaxStored
	}
	return size
}
