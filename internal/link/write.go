package link

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// Rewrite is a link before and after a write. The caller has locked its row in the transaction.
type Rewrite struct {
	Before, After *Link
	// scheduled is the scheduled change that takes effect; nil for other changes.
	scheduled *ScheduledChange
	// Operation is the id of the bulk call that the change is part of; empty for none.
	Operation string
	// previous is the state before, and fields are the changed fields; newVersions sets both.
	previous *Snapshot
	fields   []*audit.FieldChange
}

// Reason is why links are written: the type of the event, and how the versions came about.
type Reason struct {
	Action audit.Action
	Cause  Cause
}

var bySchedule = Reason{audit.LinkUpdated, CauseScheduled}

// Apply is the only way to change columns of links that users see. Links whose state does not
// change are left alone. It writes the others in one statement, with their tags, URLs and grants,
// the versions that they supersede, and an event each. The actor is that of After.In or, if that is
// empty, the server or the operator.
func (s *Store) Apply(ctx context.Context, tx bun.Tx, why Reason, rewrites []Rewrite) error {
	rewrites, err := s.newVersions(ctx, tx, why, rewrites)
	if err != nil || len(rewrites) == 0 {
		return err
	}
	if err := s.write(ctx, tx, rewrites); err != nil {
		return err
	}
	if err := writeVersions(ctx, tx, rewrites); err != nil {
		return err
	}
	return s.writeEvents(ctx, tx, why, rewrites)
}

// newVersions takes the states before and after, drops changes without an effect, and numbers the
// new versions of the others.
func (s *Store) newVersions(ctx context.Context, tx bun.Tx, why Reason, rewrites []Rewrite) ([]Rewrite, error) {
	if err := s.dropGoneFolders(ctx, tx, why, rewrites); err != nil {
		return nil, err
	}
	tags, err := s.storedTags(ctx, tx, rewrites)
	if err != nil {
		return nil, err
	}
	effective := make([]Rewrite, 0, len(rewrites))
	for _, c := range rewrites {
		stored := tags[c.Before.ID]
		c.previous = c.Before.Snapshot(stored)
		isSame, fields := compare(c.previous, c.After.snapshotWith(stored))
		if c.fields = fields; isSame && c.Before.WorkspaceID == c.After.WorkspaceID {
			unchanged := *c.Before
			unchanged.In = c.After.In
			*c.After = unchanged
			continue
		}
		c.After.clearMarks(s.now())
		if c.After.WorkspaceID != id.PublicWorkspace { // links without an account have one version
			c.After.Version, c.After.VersionCause, c.After.VersionActor = c.Before.Version+1, why.Cause, c.actorID()
			c.After.VersionStartsAt = c.startsAt()
			c.After.VersionOperation = optional.Of(c.Operation)
		}
		effective = append(effective, c)
	}
	return effective, nil
}

// actorID returns who made the change; empty for the server and the operator.
func (c *Rewrite) actorID() string {
	if c.scheduled != nil {
		return c.scheduled.ActorID
	}
	return c.After.In.ActorID()
}

// startsAt returns when the new version begins; nil for the instant at which it is written, after
// that of its predecessor. A scheduled change begins at its planned instant.
func (c *Rewrite) startsAt() *time.Time {
	if c.scheduled == nil {
		return nil
	}
	return new(startAfter(c.Before.VersionFrom(), c.scheduled.DueAt))
}

// startAfter returns when a version begins that was planned for an instant: after its predecessor,
// even if the clock of another node is ahead.
func startAfter(predecessor, planned time.Time) time.Time {
	if first := predecessor.Add(time.Microsecond); planned.Before(first) {
		return first
	}
	return planned
}

// record is the row of a link, with the columns computed for package linklist.
type record struct {
	Link `bun:",extend"`

	// TitleKey is the sort key of the title, Search the text that searches match.
	TitleKey string
	Search   string
	HostKey  string
}

func recordOf(l *Link) *record {
	r := &record{Link: *l}
	if l.PurgedAt == nil {
		r.TitleKey = validate.Fold(optional.Value(l.Title))
		texts := []string{r.TitleKey, validate.Fold(optional.Value(l.Note)), validate.Fold(l.OriginalURL),
			validate.Fold(l.ShownCode())}
		for _, u := range l.Routing.URLs() {
			texts = append(texts, validate.Fold(u.URL))
		}
		r.Search = strings.Join(texts, "\n")
		r.HostKey = HostKey(l.Host())
	}
	return r
}

// write writes the rows of changed links, and the rows derived from them.
func (s *Store) write(ctx context.Context, tx bun.Tx, rewrites []Rewrite) error {
	slices.SortFunc(rewrites, func(a, b Rewrite) int { return cmp.Compare(a.After.ID, b.After.ID) })
	if err := releaseExternalIDs(ctx, tx, rewrites); err != nil {
		return err
	}
	before, rows := make([]*record, 0, len(rewrites)), make([]*record, 0, len(rewrites))
	for _, c := range rewrites {
		before, rows = append(before, recordOf(c.Before)), append(rows, recordOf(c.After))
	}
	columns := s.changedColumns(before, rows)
	for chunk := range statements(rows) {
		values := tx.NewValues(&chunk).Column(append([]string{"id"}, columns...)...)
		q := tx.NewUpdate().With("after", values).Model((*Link)(nil)).TableExpr("after").Where("link.id = after.id")
		for _, column := range columns {
			q = q.Set("? = after.?", bun.Ident(column), bun.Ident(column))
		}
		if _, err := q.Exec(ctx); err != nil {
			return fmt.Errorf("writing links: %w", err)
		}
	}
	if err := s.writeTags(ctx, tx, rows); err != nil {
		return err
	}
	return s.writeDerived(ctx, tx, rewrites)
}

// writeDerived writes the rows of other tables that are derived of new or changed links: metadata,
// URLs and grants.
func (s *Store) writeDerived(ctx context.Context, tx bun.Tx, rewrites []Rewrite) error {
	if err := writeMetadata(ctx, tx, rewrites); err != nil {
		return err
	}
	if err := s.writeURLs(ctx, tx, rewrites); err != nil {
		return err
	}
	return writeGrants(ctx, tx, rewrites)
}

// changedColumns returns the columns whose values differ from the links' rows. A statement that
// sets a column pays for its indexes and triggers, even if the value stays.
func (s *Store) changedColumns(before, after []*record) (columns []string) {
	for _, field := range s.DB.Dialect().Tables().Get(reflect.TypeFor[*record]()).Fields {
		switch field.Name {
		// never change here
		case "id", "code", "root_code", "domain_id", "own_address", "strategy", "claim_hash", "created_at",
			"next_change_at":
			continue
		}
		for i := range after {
			if !reflect.DeepEqual(valueOf(field, before[i]), valueOf(field, after[i])) {
				columns = append(columns, field.Name)
				break
			}
		}
	}
	return columns
}

func valueOf(field *schema.Field, r *record) any {
	return field.Value(reflect.ValueOf(r).Elem()).Interface()
}

// writeEvents records the changes in the event log. Links without an account have no events.
func (s *Store) writeEvents(ctx context.Context, tx bun.Tx, why Reason, rewrites []Rewrite) error {
	events := make([]*audit.Event, 0, len(rewrites))
	for _, c := range rewrites {
		l := c.After
		if l.WorkspaceID == id.PublicWorkspace {
			continue
		}
		var details audit.Details
		var fields []*audit.FieldChange
		if why.Action == audit.LinkUpdated || why.Action == audit.LinkClaimed { // other actions name the change
			fields = c.fields
		}
		if why.Action == audit.LinkUpdated {
			details = audit.Details{"fields": namesOf(fields)}
		}
		event := audit.New(l.WorkspaceID, c.actorID(), why.Action, l.ID, details, s.Now())
		if c.scheduled != nil {
			event.WithEffectiveAt(c.scheduled.DueAt)
		}
		events = append(events, event.WithVersion(l.Version, fields).WithOperation(l.VersionOperation))
	}
	return audit.Write(ctx, tx, events...)
}

func namesOf(fields []*audit.FieldChange) (names []string) {
	for _, f := range fields {
		names = append(names, f.Field)
	}
	return names
}

// clearMarks lets transitions be recorded again that a change has moved into the future.
func (l *Link) clearMarks(now time.Time) {
	if l.StartsAt == nil || l.StartsAt.After(now) {
		l.StartedAt = nil
	}
	if l.ExpiresAt == nil || l.ExpiresAt.After(now) {
		l.ExpiredAt = nil
	}
}
