package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// verifiedAtOnce is how many links one transaction of Verify reads. It locks them meanwhile.
const verifiedAtOnce = 200

// Difference is a disagreement between a link, its versions and its events.
type Difference struct {
	LinkID string
	// Text describes it.
	Text string
}

// Verify compares every link that has a history with its versions and events: versions are numbered
// without gaps, each begins where the one before ends, and each has exactly one event, with the
// fields that differ. It reports differences to found, and returns the number of links. It works
// while servers run.
func (s *Store) Verify(ctx context.Context, found func(Difference)) (links int, err error) {
	ctx = db.AsSystem(ctx)
	for last := ""; ; {
		var histories []*history
		err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			histories, err = s.histories(ctx, tx, last)
			return err
		})
		if err != nil {
			return links, err
		}
		if len(histories) == 0 {
			return links, nil
		}
		for _, h := range histories {
			h.since, h.found = s.now().Add(-audit.Retention), found
			if err := h.verify(); err != nil {
				return links, err
			}
		}
		links += len(histories)
		last = histories[len(histories)-1].link.ID
	}
}

// history is a link and its tags, with its superseded versions, oldest first, and the events that
// name a version.
type history struct {
	link   *link.Link
	rows   []link.VersionRow
	events map[int][]*audit.Event
	// since is the first instant whose events are stored.
	since time.Time
	found func(Difference)
}

// histories reads the links after an id, in the order of their ids. It locks them, so that no
// transaction changes them between its statements.
func (s *Store) histories(ctx context.Context, tx bun.Tx, last string) (histories []*history, err error) {
	var links []*link.Link
	err = s.DB.ForChange(tx.NewSelect().Model(&links).Where("id > ?", last).Where("purged_at IS NULL").
		Where("workspace_id <> ?", id.PublicWorkspace).Order("id").Limit(verifiedAtOnce)).Scan(ctx)
	if err != nil || len(links) == 0 {
		return nil, err
	}
	ids := make([]string, len(links))
	for i, l := range links {
		ids[i] = l.ID
	}
	var rows []link.VersionRow
	if err := tx.NewSelect().Model(&rows).Where("link_id IN (?)", bun.In(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading versions: %w", err)
	}
	if err := link.LoadTags(ctx, tx, links...); err != nil {
		return nil, err
	}
	events, err := audit.OfVersions(ctx, tx, ids...)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		histories = append(histories, &history{link: l, events: map[int][]*audit.Event{}})
	}
	assign(histories, rows, events)
	return histories, nil
}

// assign adds versions and events to the histories of their links.
func assign(histories []*history, rows []link.VersionRow, events []*audit.Event) {
	byLink := map[string]*history{}
	for _, h := range histories {
		byLink[h.link.ID] = h
	}
	for _, row := range rows {
		h := byLink[row.LinkID]
		h.rows = append(h.rows, row)
	}
	for _, e := range events {
		h := byLink[e.TargetID]
		h.events[*e.Version] = append(h.events[*e.Version], e)
	}
	for _, h := range histories {
		slices.SortFunc(h.rows, func(a, b link.VersionRow) int { return cmp.Compare(a.Number, b.Number) })
	}
}

func (h *history) differs(format string, args ...any) {
	h.found(Difference{h.link.ID, fmt.Sprintf(format, args...)})
}

func (h *history) verify() error {
	h.verifyNumbers()
	versions, err := h.versions()
	if err != nil {
		return err
	}
	for number, events := range h.events {
		if number < 1 || number > h.link.Version {
			h.differs("event %s names version %d of %d", events[0].ID, number, h.link.Version)
		}
	}
	for i, v := range versions {
		events := h.events[v.Number]
		if len(events) > 1 {
			h.differs("version %d has %d events", v.Number, len(events))
		}
		// Links that are older than the history, and links that were created without an account,
		// have no event of their first version.
		if len(events) == 0 && v.Number > 1 && !v.From.Before(h.since) {
			h.differs("version %d has no event", v.Number)
		}
		if i > 0 && len(events) == 1 {
			if err := h.verifyChanges(events[0], versions[i-1], v); err != nil {
				return err
			}
		}
	}
	return nil
}

// verifyNumbers checks that the superseded versions have no gaps up to the newest version.
func (h *history) verifyNumbers() {
	next, start := h.link.Version, h.link.VersionFrom()
	for _, row := range slices.Backward(h.rows) {
		if row.Number != next-1 {
			h.differs("version %d is missing before %d", next-1, next)
		} else if !row.EndsAt.Equal(start) {
			h.differs("version %d ends at %s, but %d begins at %s", row.Number, row.EndsAt.UTC(), next, start.UTC())
		}
		if !row.StartsAt.Before(row.EndsAt) {
			h.differs("version %d begins at %s, and ends at %s", row.Number, row.StartsAt.UTC(), row.EndsAt.UTC())
		}
		next, start = row.Number, row.StartsAt
	}
	if next > 1 && len(h.rows) < link.MaxVersions {
		h.differs("the versions before %d are missing", next)
	}
}

// versions returns all versions that are stored, oldest first.
func (h *history) versions() (versions []*link.Version, err error) {
	for _, row := range h.rows {
		v, err := row.Version(h.link)
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	newest := &link.Version{Snapshot: *h.link.Snapshot(h.link.Tags), Number: h.link.Version,
		From: h.link.VersionFrom()}
	return append(versions, newest), nil
}

// verifyChanges checks that the event of a version lists the fields that differ from the version
// before.
func (h *history) verifyChanges(e *audit.Event, before, after *link.Version) error {
	listed, err := e.FieldChanges()
	if err != nil {
		return fmt.Errorf("decoding the changes of %s: %w", e.ID, err)
	}
	if e.Action != audit.LinkUpdated && len(listed) == 0 { // deletion, for instance, lists no fields
		return nil
	}
	differing := audit.Compare(before.Fields(), after.Fields())
	if len(differing)+len(listed) == 0 {
		return nil
	}
	got, err := json.Marshal(listed)
	if err != nil {
		return err
	}
	want, err := json.Marshal(differing)
	if err != nil {
		return err
	}
	if validate.Normal(string(got)) != validate.Normal(string(want)) { // versions keep the form that texts had
		h.differs("event %s of version %d has the changes %s, but the versions differ in %s", e.ID, after.Number, got,
			want)
	}
	return nil
}
