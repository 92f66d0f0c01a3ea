package link

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// MaxVersions is how many superseded versions of a link are stored; older ones are dropped.
const MaxVersions = 1000

// Cause is how a version came about. Its text is the name in the GraphQL schema.
type Cause string

// The causes.
const (
	CauseCreated  Cause = "CREATED"
	CauseUpdated  Cause = "UPDATED"
	CauseDeleted  Cause = "DELETED"
	CauseRestored Cause = "RESTORED"
	CauseRevived  Cause = "REVIVED"
	CauseClaimed  Cause = "CLAIMED"
	CauseReverted Cause = "REVERTED"
	// CauseScheduled is a scheduled change.
	CauseScheduled Cause = "SCHEDULED"
	CauseOperator  Cause = "OPERATOR"
	CauseImported  Cause = "IMPORTED"
)

// Version is the state of a link from one change to the next.
type Version struct {
	Snapshot
	Link   *Link
	Number int
	// From is its first instant, To the first instant after it; nil for the newest version, unless
	// a scheduled change has ended it that is not written yet.
	From time.Time
	To   *time.Time
	// Cause is how it came about, ActorID who made it; empty for the server and the operator.
	Cause   Cause
	ActorID string
	// OperationID is the bulk call that it was part of, or that it undid; nil for none.
	OperationID *string
	// Changes are the fields that differ from the version before; none for the first, and if that
	// was dropped.
	Changes []*audit.FieldChange
}

// LinkRouting returns the routing of the version.
func (v *Version) LinkRouting() *LinkRouting {
	then := *v.Link
	then.OriginalURL, then.Routing = v.OriginalURL, v.Routing
	return then.LinkRouting()
}

// VersionRow is a superseded version.
type VersionRow struct {
	bun.BaseModel `bun:"table:link_versions"`

	LinkID      string `bun:",pk"`
	Number      int    `bun:",pk"`
	WorkspaceID string
	StartsAt    time.Time
	EndsAt      time.Time
	Cause       Cause
	ActorID     string
	OperationID *string
	// Snapshot is JSON.
	Snapshot string
}

// Version returns the version of the link that the row stores.
func (r *VersionRow) Version(l *Link) (*Version, error) {
	v := &Version{
		Link: l, Number: r.Number, From: r.StartsAt.UTC(), To: utc(&r.EndsAt), Cause: r.Cause, ActorID: r.ActorID,
		OperationID: r.OperationID,
	}
	if err := json.Unmarshal([]byte(r.Snapshot), &v.Snapshot); err != nil {
		return nil, fmt.Errorf("decoding a version: %w", err)
	}
	return v, nil
}

// supersede returns the row of the version that a change ends.
func (c *Rewrite) supersede() (VersionRow, error) {
	text, err := json.Marshal(c.previous)
	if err != nil {
		return VersionRow{}, fmt.Errorf("encoding a version: %w", err)
	}
	startsAt := c.Before.VersionFrom()
	if c.Before.WorkspaceID == id.PublicWorkspace { // it had no versions so far
		startsAt = c.Before.CreatedAt
	}
	return VersionRow{
		LinkID: c.After.ID, Number: c.Before.Version, WorkspaceID: c.After.WorkspaceID, StartsAt: startsAt,
		EndsAt: c.After.VersionFrom(), Cause: c.Before.VersionCause, ActorID: c.Before.VersionActor,
		OperationID: c.Before.VersionOperation, Snapshot: string(text),
	}, err
}

// writeVersions stores the versions that changes supersede, and drops those beyond MaxVersions.
// Links without an account have no versions.
func writeVersions(ctx context.Context, tx bun.Tx, rewrites []Rewrite) error {
	var rows []VersionRow
	for _, c := range rewrites {
		if c.After.WorkspaceID == id.PublicWorkspace || c.Before.PurgedAt != nil {
			continue
		}
		row, err := c.supersede()
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	if err := db.InsertRows(ctx, tx, db.Insert{}, rows); err != nil {
		return fmt.Errorf("storing versions: %w", err)
	}
	for _, row := range rows {
		if row.Number <= MaxVersions {
			continue
		}
		_, err := tx.NewDelete().Model((*VersionRow)(nil)).Where("link_id = ?", row.LinkID).
			Where("number <= ?", row.Number-MaxVersions).Exec(ctx)
		if err != nil {
			return fmt.Errorf("dropping versions: %w", err)
		}
	}
	return nil
}

// UnwrittenVersions returns the version in the link's row, followed by the later versions that have
// begun and are not written yet. Scheduled changes without an effect write none.
func (s *Store) UnwrittenVersions(ctx context.Context, l *Link) ([]*Version, error) {
	tags, err := s.TagsOf(ctx, l.In, l.ID)
	if err != nil {
		return nil, err
	}
	row := cmp.Or(l.stored, l) // without changes that Complete has applied
	last := &Version{
		Snapshot: *row.Snapshot(tags[l.ID]), Link: l, Number: row.Version, From: row.VersionFrom(),
		Cause: row.VersionCause, ActorID: row.VersionActor, OperationID: row.VersionOperation,
	}
	versions := []*Version{last}
	for _, due := range l.due {
		state := due.link.snapshotWith(tags[l.ID])
		isSame, fields := compare(&last.Snapshot, state)
		if isSame {
			continue
		}
		next := &Version{
			Snapshot: *state, Link: l, Number: last.Number + 1, From: startAfter(last.From, due.at),
			Cause:   CauseScheduled,
			ActorID: due.actor, Changes: fields,
		}
		last.To, last = &next.From, next
		versions = append(versions, next)
	}
	return versions, nil
}

// VersionFrom returns when the newest version began.
func (l *Link) VersionFrom() time.Time { return optional.Or(l.VersionStartsAt, l.UpdatedAt).UTC() }
