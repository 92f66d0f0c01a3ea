package link

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/db/replica"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

// maxVersions is how many superseded versions of a link are stored; older ones are dropped.
const maxVersions = 1000

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
)

// Version is the state of a link from one change to the next.
type Version struct {
	Snapshot
	Link   *Link
	Number int
	// From is its first instant, To the first instant after it; nil for the newest version, unless a
	// scheduled change has ended it that is not written yet.
	From time.Time
	To   *time.Time
	// Cause is how it came about, ActorID who made it; empty for the server and the operator.
	Cause   Cause
	ActorID string
	// OperationID is the bulk call that it was part of, or that it undid; nil for none.
	OperationID *string
	// Changes are the fields that differ from the version before; none for the first, and if that was
	// dropped.
	Changes []*audit.FieldChange
}

// LinkRouting returns the routing of the version.
func (v *Version) LinkRouting() *LinkRouting {
	then := *v.Link
	then.OriginalURL, then.Routing = v.URL, v.Routing
	return then.LinkRouting()
}

// versionRow is a superseded version.
type versionRow struct {
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

// version returns the version of the link that the row stores.
func (r *versionRow) version(l *Link) (*Version, error) {
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
func (c *Rewrite) supersede() (versionRow, error) {
	text, err := c.previous.encode()
	startsAt := c.Before.versionFrom()
	if c.Before.WorkspaceID == workspace.PublicID { // it had no versions so far
		startsAt = c.Before.CreatedAt
	}
	return versionRow{
		LinkID: c.After.ID, Number: c.Before.Version, WorkspaceID: c.After.WorkspaceID, StartsAt: startsAt,
		EndsAt: c.After.versionFrom(), Cause: c.Before.VersionCause, ActorID: c.Before.VersionActor,
		OperationID: c.Before.VersionOperation, Snapshot: text,
	}, err
}

// writeVersions stores the versions that changes supersede, and drops those beyond maxVersions. Links
// without an account have no versions.
func writeVersions(ctx context.Context, tx bun.Tx, rewrites []Rewrite) error {
	var rows []versionRow
	for _, c := range rewrites {
		if c.After.WorkspaceID == workspace.PublicID || c.Before.PurgedAt != nil {
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
		if row.Number <= maxVersions {
			continue
		}
		_, err := tx.NewDelete().Model((*versionRow)(nil)).Where("link_id = ?", row.LinkID).
			Where("number <= ?", row.Number-maxVersions).Exec(ctx)
		if err != nil {
			return fmt.Errorf("dropping versions: %w", err)
		}
	}
	return nil
}

// Versions returns one page of the versions of a link, newest first. The cursor is a number. It returns
// InvalidInput for one that is not, and Forbidden.
func (s *Store) Versions(
	ctx context.Context, l *Link, size int, after string,
) (p page.Page[*Version], err error) {
	before := l.Version + 1
	if after != "" {
		if before, err = strconv.Atoi(after); err != nil || before < 1 || before > l.Version {
			return p, errs.New(errs.InvalidInput, "The cursor is not one of this list.").At("after")
		}
	}
	versions, err := s.versionsBefore(ctx, l, before, size+1)
	if err != nil {
		return p, err
	}
	p.HasPrevious = after != ""
	if p.HasNext = len(versions) > size; p.HasNext {
		versions = versions[:size]
	}
	p.Items = versions
	for _, v := range versions {
		p.Cursors = append(p.Cursors, strconv.Itoa(v.Number))
	}
	return p, nil
}

// versionsBefore returns at most limit versions with smaller numbers, newest first.
func (s *Store) versionsBefore(ctx context.Context, l *Link, number, limit int) (versions []*Version, err error) {
	if ctx, err = l.In.Enter(ctx, workspace.ReadLinks); err != nil {
		return nil, err
	}
	ctx = replica.UpToDate(ctx) // a standby may lack the versions before the link's
	if number > l.Version {
		newest, err := s.newestVersion(ctx, l)
		if err != nil {
			return nil, err
		}
		versions = append(versions, newest)
	}
	var rows []versionRow
	err = s.DB.NewSelect().Model(&rows).Where("link_id = ?", l.ID).Where("workspace_id = ?", l.WorkspaceID).
		Where("number < ?", min(number, l.Version)).Order("number DESC").Limit(int64(limit + 1)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading versions: %w", err)
	}
	for _, row := range rows {
		v, err := row.version(l)
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	for i := range versions[:max(len(versions)-1, 0)] {
		versions[i].Changes = audit.Compare(versions[i+1].fields(), versions[i].fields())
	}
	return versions[:min(len(versions), limit)], nil
}

// newestVersion returns the version that the row of the link is.
func (s *Store) newestVersion(ctx context.Context, l *Link) (*Version, error) {
	versions, err := s.unwrittenVersions(ctx, l)
	if err != nil {
		return nil, err
	}
	return versions[0], nil
}

// unwrittenVersions returns the version that the row of the link is, and those that have begun since and are
// not written yet, as they will be: scheduled changes without an effect write none.
func (s *Store) unwrittenVersions(ctx context.Context, l *Link) ([]*Version, error) {
	tags, err := s.TagsOf(ctx, l.In, l.ID)
	if err != nil {
		return nil, err
	}
	row := l.written()
	last := &Version{
		Snapshot: *row.snapshot(tags[l.ID]), Link: l, Number: row.Version, From: row.versionFrom(),
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
			Snapshot: *state, Link: l, Number: last.Number + 1, From: startAfter(last.From, due.at), Cause: CauseScheduled,
			ActorID: due.actor, Changes: fields,
		}
		last.To, last = &next.From, next
		versions = append(versions, next)
	}
	return versions, nil
}

// versionFrom returns when the newest version began.
func (l *Link) versionFrom() time.Time { return optional.Or(l.VersionStartsAt, l.UpdatedAt).UTC() }

// written returns the link as its row is, without changes that Complete has applied.
func (l *Link) written() *Link {
	if l.stored != nil {
		return l.stored
	}
	return l
}

// Revert restores a version of a link as a new version. Deletion and disabling stay. Seen is the UpdatedAt
// that the link must have; nil means any. It returns NotFound, Conflict, and the errors of Update.
func (s *Store) Revert(
	ctx context.Context, m workspace.Membership, linkID string, number int, seen *time.Time,
) (*Link, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	version, err := s.versionOf(ctx, m, linkID, number)
	if err != nil {
		return nil, err
	}
	if err := s.Clicks.Flush(ctx); err != nil { // the redirects of this node count towards the restored limit
		return nil, err
	}
	e := Edits{IDs: []string{linkID}, Field: "id", Reason: reverted, NeedClicks: true}
	e.Mutate = func(_ int, l *Link) error {
		if err := checkSeen(seen, l); err != nil {
			return err
		}
		if l.Version == number {
			return nil
		}
		return s.revertTo(version, l)
	}
	return single(s.edit(ctx, m, e))
}

// revertTo gives the link the state of a version, and runs its tests.
func (s *Store) revertTo(v *Version, l *Link) error {
	now := s.now()
	if err := v.applyTo(l, now); err != nil {
		return err
	}
	l.Touch(now)
	return s.RunTests(l)
}

// versionOf returns a version of a link. It returns NotFound.
func (s *Store) versionOf(ctx context.Context, m workspace.Membership, linkID string, number int) (*Version, error) {
	l, err := s.Get(ctx, m, linkID)
	if err != nil {
		return nil, err
	}
	versions, err := s.versionsBefore(ctx, l, number+1, 1)
	if err == nil && (len(versions) == 0 || versions[0].Number != number) {
		err = errNoVersion().At("version")
	}
	if err != nil {
		return nil, err
	}
	return versions[0], nil
}

func errNoVersion() *errs.Error {
	return errs.New(errs.NotFound, "The link has no such version, or it is no longer stored.")
}

func checkSeen(seen *time.Time, l *Link) error {
	if seen != nil && !seen.Equal(l.UpdatedAt) {
		return errs.New(errs.Conflict, "The link has changed since you read it. Read it again, and repeat the call.").At("updatedAt")
	}
	return nil
}
