package edit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Undo is the outcome of undoing a part of an operation.
type Undo struct {
	// LinkIDs and Results have an entry for each link of this call.
	LinkIDs []string
	Results []link.Result
	// Remaining is how many links of the operation are left.
	Remaining int
}

// RevertOperation undoes a bulk call of the last 30 days for up to MaxBatch links that have not
// changed since, or whose later changes were all undone: it deletes created, restored and revived
// links, restores deleted ones, and reverts the others and the fields of revived links to the version
// before. Links that were undone before are left alone, without an error. The results' errors are
// Conflict for a link that changed since, and those of Revert, DeleteMany and Restore. An error means
// that nothing was changed: NotFound or Forbidden. Callers repeat the call until Remaining is 0, which
// it also is after a call that could undo no link. An import that was undone is forgotten in the same
// transaction, see forget.
func (s *Store) RevertOperation(ctx context.Context, m workspace.Membership, operationID string) (Undo, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return Undo{}, err
	}
	o := operation{id: operationID}
	if err := s.loadOperation(ctx, m, &o); err != nil {
		return Undo{}, err
	}
	needClicks := false
	for _, v := range o.versions {
		needClicks = needClicks || v.MaxClicks != nil
	}
	ids := make([]string, 0, len(o.parts))
	for _, p := range o.parts {
		ids = append(ids, p.LinkID)
	}
	if needClicks {
		s.AwaitClicks(ctx)
	}
	undone := undoneLinks{}
	results, err := s.transact(ctx, func(ctx context.Context, tx bun.Tx) ([]link.Result, error) {
		clear(undone)
		results, err := s.EditIn(ctx, tx, m, link.Edits{
			IDs: ids, ReasonOf: o.reason, OperationID: operationID, NeedClicks: needClicks,
			Mutate: func(i int, l *link.Link) error { return s.undo(&o, o.parts[i], l, undone) },
		})
		if err != nil {
			return results, err
		}
		return results, o.forget(ctx, tx, m, results, undone)
	})
	if err != nil {
		return Undo{}, err
	}
	isUndone := func(r link.Result) bool { return r.Err == nil && undone[r.Link.ID] != undoneState{} }
	if !slices.ContainsFunc(results, isUndone) { // a repeated call would not get any further
		o.remaining = 0
	}
	return Undo{LinkIDs: ids, Results: results, Remaining: o.remaining}, nil
}

// operation is a bulk call to undo.
type operation struct {
	id string
	// parts are the links of this call, remaining is the number of those left for later ones.
	parts     []part
	remaining int
	// versions are the superseded ones of those of the parts, of the two before and the one after
	// these.
	versions map[versionKey]*link.Version
	// byLink are the parts by the ids of their links.
	byLink map[string]part
}

// part is a link with the last version that an operation, or undoing it, wrote within the time of
// loadOperation. The calls of ReplaceTags on a day may write and undo several.
type part struct {
	LinkID string
	Number int
	// Newest is the number of the link's newest version if the operation wrote the version of the
	// part, and all later ones are changes by other operations that were undone, and their undoing. It
	// is 0 if there is nothing to undo.
	Newest int
}

type versionKey struct {
	LinkID string
	Number int
}

// maxOperationDuration is the longest time from the last creation of an operation's id to its last
// event, unless a task has the operation. Then it is the longest time from the end of the task.
const maxOperationDuration = 10 * time.Minute

// causeOf is the cause of the version of an event e, of the link link. isUndoneSince is the condition
// that the operation wrote this version, and that each later one is either a change by an operation or
// undid the newest change that was left: as many undid as changed, and none is missing. An import that
// changes and deletes a link writes two versions for one change.
const (
	causeOf = "CASE WHEN link.version = e.version THEN link.version_cause ELSE (SELECT cause FROM link_versions " +
		"WHERE link_id = link.id AND number = e.version) END"
	isUndoneSince = "link.version > e.version AND link.version_cause = ? AND link.version_operation IS NOT NULL AND " +
		"EXISTS (SELECT 1 FROM link_versions WHERE link_id = link.id AND number = e.version AND operation_id = ? " +
		"AND cause <> ?) AND " +
		"(SELECT count(*) = link.version - e.version - 1 AND " +
		"COALESCE(sum(CASE WHEN v.cause = ? AND v.operation_id IS NOT NULL THEN -1 " +
		"WHEN v.cause = ? AND v.operation_id = before.operation_id AND before.cause = v.cause THEN 0 " +
		"ELSE 1 END), 0) = 1 " +
		"FROM link_versions AS v LEFT JOIN link_versions AS before " +
		"ON before.link_id = v.link_id AND before.number = v.number - 1 " +
		"WHERE v.link_id = link.id AND v.number > e.version)"
)

// loadOperation reads the parts of an operation from its events, and their versions. The ids of
// events are ordered by time, as that of the operation, which limits the search. It returns
// NotFound.
func (s *Store) loadOperation(ctx context.Context, m workspace.Membership, o *operation) error {
	from, to, ok := id.Span(id.Operation, o.id)
	if !ok {
		return errNoOperation()
	}
	ctx = db.UpToDate(ctx) // a standby may lack the operation
	to, err := s.endOf(ctx, m, o.id, to)
	if err != nil {
		return err
	}
	events := s.DB.NewSelect().Model((*audit.Event)(nil)).
		ColumnExpr("target_id, max(version) AS version, min(id) AS id").
		Where("workspace_id = ?", m.ID()).Where("id >= ?", id.From(id.Event, from)).
		Where("id < ?", id.From(id.Event, to.Add(maxOperationDuration))).Where("operation_id = ?", o.id).
		Where("created_at > ?", db.Instant(s.Now().Add(-audit.FeedRetention))).Apply(m.InsideByID("target_id")).
		Group("target_id")
	err = s.DB.NewSelect().TableExpr("(?) AS e", events).
		ColumnExpr("e.target_id AS link_id, e.version AS number, COALESCE(link.version, 0) AS newest").
		Join("LEFT JOIN links AS link ON link.id = e.target_id AND "+
			"NOT (link.deleted_at IS NOT NULL AND "+causeOf+" = ? AND "+ // closed, and forgotten already
			"NOT EXISTS (SELECT 1 FROM link_origins WHERE link_id = link.id)) AND "+
			"(link.version = e.version AND link.version_operation = ? AND link.version_cause <> ? OR "+
			isUndoneSince+")",
			link.CauseImported, o.id, link.CauseReverted, link.CauseReverted, o.id, link.CauseReverted,
			link.CauseReverted, link.CauseImported).
		OrderExpr("link.id IS NULL, e.id").Scan(ctx, &o.parts)
	if err != nil {
		return fmt.Errorf("reading the events of an operation: %w", err)
	}
	if len(o.parts) == 0 {
		return errNoOperation()
	}
	for _, p := range o.parts[min(len(o.parts), link.MaxBatch):] {
		if p.Newest > 0 {
			o.remaining++
		}
	}
	o.parts = o.parts[:min(len(o.parts), link.MaxBatch)]
	o.byLink = map[string]part{}
	var around []versionKey
	for _, p := range o.parts {
		o.byLink[p.LinkID] = p
		for number := p.Number - 2; number <= p.Number+1; number++ {
			around = append(around, versionKey{p.LinkID, number})
		}
	}
	o.versions, err = s.superseded(ctx, around...)
	return err
}

// endOf returns the end of the task that has an operation, or the present if the task has not ended,
// or the given end if that is later or no task has the operation. An import may wait for its file or
// for the API of a source.
func (s *Store) endOf(ctx context.Context, m workspace.Membership, operationID string, end time.Time) (
	time.Time, error,
) {
	var tasks []struct{ FinishedAt *time.Time }
	err := s.DB.NewSelect().Table("tasks").Column("finished_at").Where("workspace_id = ?", m.ID()).
		Where("operation_id = ?", operationID).Scan(ctx, &tasks)
	if err != nil {
		return end, fmt.Errorf("reading the task of an operation: %w", err)
	}
	for _, t := range tasks {
		if at := optional.Or(t.FinishedAt, s.now()); at.After(end) {
			end = at
		}
	}
	return end, nil
}

// superseded returns superseded versions. It omits versions that are not stored.
func (s *Store) superseded(ctx context.Context, wanted ...versionKey) (map[versionKey]*link.Version, error) {
	var rows []link.VersionRow
	err := s.DB.NewSelect().With("wanted", s.DB.NewValues(&wanted)).Model(&rows).
		Join("JOIN wanted ON wanted.link_id = version_row.link_id AND wanted.number = version_row.number").
		Scan(db.UpToDate(ctx)) // a standby may lack them
	if err != nil {
		return nil, fmt.Errorf("reading versions: %w", err)
	}
	versions := make(map[versionKey]*link.Version, len(rows))
	for _, row := range rows {
		v, err := row.Version(nil)
		if err != nil {
			return nil, err
		}
		versions[versionKey{row.LinkID, row.Number}] = v
	}
	return versions, nil
}

// undo undoes an operation in a link, if it left the link in its state, and adds the link to undone.
func (s *Store) undo(o *operation, p part, l *link.Link, undone undoneLinks) error {
	if o.wasUndone(p, l) {
		return nil
	}
	last := o.version(p.Number, l)
	if l.Version != p.Newest || last == nil || optional.Value(last.OperationID) != o.id {
		return errs.New(errs.Conflict,
			"The link has been changed since. Change it yourself, or revert it to a version.")
	}
	first, before := o.before(l)
	undone[l.ID] = o.stateOf(l)
	now := s.now()
	switch {
	// the link has no state before
	case last.Cause == link.CauseCreated, last.Cause == link.CauseRestored, first == 1:
		l.MarkDeleted(now)
		return nil
	case last.Cause == link.CauseDeleted:
		return l.UnmarkDeleted(now)
	case before == nil:
		return errNoVersion()
	case last.Cause == link.CauseRevived:
		l.MarkDeleted(now)
		return apply(&before.Snapshot, l, now)
	case last.Cause == link.CauseImported:
		return s.undoImport(before, l)
	default:
		return s.revertTo(before, l)
	}
}

// undoImport gives the link the state that it had before an import, which may have deleted or
// restored it.
func (s *Store) undoImport(before *link.Version, l *link.Link) error {
	if err := s.revertTo(before, l); err != nil {
		return err
	}
	if before.Deleted {
		l.MarkDeleted(s.now())
		return nil
	}
	return l.UnmarkDeleted(s.now())
}

// version returns a version of a link: a superseded one, or what describes the newest one; nil if it is
// not stored.
func (o *operation) version(number int, l *link.Link) *link.Version {
	if l.Version == number {
		return &link.Version{From: l.VersionFrom(), Cause: l.VersionCause, OperationID: l.VersionOperation}
	}
	return o.versions[versionKey{l.ID, number}]
}

// last returns the last version of a link that the operation wrote. Without one, it has no cause.
func (o *operation) last(l *link.Link) (v *link.Version, number int) {
	number = o.byLink[l.ID].Number
	if v = o.version(number, l); v == nil {
		v = &link.Version{}
	}
	return v, number
}

// before returns the number of the first of the last versions of a link that the operation wrote,
// and the superseded version before it; nil if that is not stored. An import writes two versions of
// a link that it creates or changes, and deletes.
func (o *operation) before(l *link.Link) (first int, before *link.Version) {
	last, first := o.last(l)
	previous := o.versions[versionKey{l.ID, first - 1}]
	if last.Cause == link.CauseImported && previous != nil && previous.Cause == link.CauseImported &&
		optional.Value(previous.OperationID) == o.id {
		first--
	}
	return first, o.versions[versionKey{l.ID, first - 1}]
}

// wasUndone reports whether the version of the part, or the one after it, undid the operation.
func (o *operation) wasUndone(p part, l *link.Link) bool {
	return o.isUndo(p.Number, l) || o.isUndo(p.Number+1, l)
}

func (o *operation) isUndo(number int, l *link.Link) bool {
	v := o.version(number, l)
	return v != nil && v.Cause == link.CauseReverted && optional.Value(v.OperationID) == o.id
}

// reason is the Reason for undoing the operation in a link.
func (o *operation) reason(l *link.Link) link.Reason {
	last, _ := o.last(l)
	first, before := o.before(l)
	wasDeleted := first == 1 || before != nil && before.Deleted
	isImported := last.Cause == link.CauseImported
	switch {
	case last.Cause == link.CauseCreated, last.Cause == link.CauseRestored,
		last.Cause == link.CauseRevived, isImported && wasDeleted && l.DeletedAt == nil:
		return undoneCreation
	case last.Cause == link.CauseDeleted, isImported && !wasDeleted && l.DeletedAt != nil:
		return undoneDeletion
	default:
		return reverted
	}
}

func errNoOperation() error {
	return errs.New(errs.NotFound, "There is no such operation in the workspace, or it is older than 30 days.").
		At("operationId")
}

// undoneLinks are what an operation had done to the links that are undone, by their ids.
type undoneLinks map[string]undoneState

// undoneState is what an operation had done to a link, whether that was an import, and whether it
// created the link.
type undoneState struct {
	isCreated, isImported bool
	// at is when the last version began that is undone.
	at time.Time
}

// stateOf returns what the operation did to a link.
func (o *operation) stateOf(l *link.Link) undoneState {
	last, _ := o.last(l)
	first, _ := o.before(l)
	return undoneState{isImported: last.Cause == link.CauseImported, isCreated: first == 1, at: last.From}
}

// forget removes what imports remember of the links that are undone, so that the import can be
// repeated. Nothing is remembered of a link that the import created. Of others, the rows that have
// been imported since are remembered as before the import.
func (o *operation) forget(
	ctx context.Context, tx bun.Tx, m workspace.Membership, results []link.Result, undone undoneLinks,
) error {
	var created, changed []string
	var since time.Time
	for _, r := range results {
		if r.Err != nil {
			continue
		}
		switch u := undone[r.Link.ID]; {
		case u.isImported && u.isCreated:
			created = append(created, r.Link.ID)
		case u.isImported:
			if changed = append(changed, r.Link.ID); since.IsZero() || u.at.Before(since) {
				since = u.at
			}
		}
	}
	if len(created) > 0 {
		_, err := tx.NewDelete().Table("link_origins").Where("workspace_id = ?", m.ID()).
			Where("link_id IN (?)", bun.In(created)).Exec(ctx)
		if err != nil {
			return fmt.Errorf("forgetting the origins of links: %w", err)
		}
	}
	if len(changed) > 0 {
		isSince := func(q bun.QueryBuilder) bun.QueryBuilder {
			return q.Where("link_id IN (?)", bun.In(changed)).
				Where("(operation_id = ? OR imported_at >= ?)", o.id, since)
		}
		if err := forgetRows(ctx, tx, m, isSince); err != nil {
			return err
		}
	}
	if o.remaining > 0 { // this reads all origins of the workspace
		return nil
	}
	return forgetRows(ctx, tx, m, func(q bun.QueryBuilder) bun.QueryBuilder { // closed without a version
		closed := tx.NewSelect().Model((*link.Link)(nil)).Column("id").Where("workspace_id = ?", m.ID()).
			Where("version_cause = ?", link.CauseImported).Where("deleted_at IS NOT NULL").Where("id = link_id")
		return q.Where("operation_id = ?", o.id).Where("EXISTS (?)", closed)
	})
}

// forgetRows has the rows that a condition selects remembered as before their last import: those
// that were unknown then are forgotten.
func forgetRows(
	ctx context.Context, tx bun.Tx, m workspace.Membership, condition func(bun.QueryBuilder) bun.QueryBuilder,
) error {
	_, err := tx.NewDelete().Table("link_origins").Where("workspace_id = ?", m.ID()).Where("previous_hash IS NULL").
		ApplyQueryBuilder(condition).Exec(ctx)
	if err == nil {
		_, err = tx.NewUpdate().Table("link_origins").Set("hash = substr(previous_hash, 1, ?)", sha256.Size).
			Set("previous_hash = CASE WHEN length(previous_hash) > ?0 THEN substr(previous_hash, ?0 + 1) END",
				sha256.Size).
			Set("operation_id = NULL").Where("workspace_id = ?", m.ID()).ApplyQueryBuilder(condition).Exec(ctx)
	}
	if err != nil {
		return fmt.Errorf("forgetting the rows of an import: %w", err)
	}
	return nil
}
