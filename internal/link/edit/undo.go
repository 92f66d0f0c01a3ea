package edit

import (
	"context"
	"fmt"
	"time"

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
// changed since: it deletes created, restored and revived links, restores deleted ones, and reverts
// the others and the fields of revived links to the version before. Links that were undone before
// are left alone, without an error. The results' errors are Conflict for a link that changed since,
// and those of Revert, DeleteMany and Restore. An error means that nothing was changed: NotFound or
// Forbidden. Callers repeat the call until Remaining is 0, which it also is after a call that could
// undo no link.
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
	results, err := s.edit(ctx, m, link.Edits{
		IDs: ids, ReasonOf: reasonOfUndo, OperationID: operationID, NeedClicks: needClicks,
		Mutate: func(i int, l *link.Link) error { return s.undo(&o, o.parts[i], l) },
	})
	if err != nil {
		return Undo{}, err
	}
	if link.OperationOf(results) == nil { // a repeated call would not get any further
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
	// versions are the superseded ones of those of the parts, and of the versions before and after
	// these.
	versions map[versionKey]*link.Version
}

// part is a link with the last version that an operation, or undoing it, wrote within the time of
// loadOperation. The calls of ReplaceTags on a day may write and undo several.
type part struct {
	LinkID string
	Number int
	// IsNewest means that the operation wrote the version, and the link has no later one.
	IsNewest bool
}

type versionKey struct {
	LinkID string
	Number int
}

// maxOperationDuration is the longest time from the last creation of an operation's id to its last
// event.
const maxOperationDuration = 10 * time.Minute

// loadOperation reads the parts of an operation from its events, and their versions. The ids of
// events are ordered by time, as that of the operation, which limits the search. It returns
// NotFound.
func (s *Store) loadOperation(ctx context.Context, m workspace.Membership, o *operation) error {
	from, to, ok := id.Span(id.Operation, o.id)
	if !ok {
		return errNoOperation()
	}
	ctx = db.UpToDate(ctx) // a standby may lack the operation
	events := s.DB.NewSelect().Model((*audit.Event)(nil)).
		ColumnExpr("target_id, max(version) AS version, min(id) AS id").
		Where("workspace_id = ?", m.ID()).Where("id >= ?", id.From(id.Event, from)).
		Where("id < ?", id.From(id.Event, to.Add(maxOperationDuration))).Where("operation_id = ?", o.id).
		Where("created_at > ?", db.Instant(s.Now().Add(-audit.FeedRetention))).Apply(m.InsideByID("target_id")).
		Group("target_id")
	err := s.DB.NewSelect().TableExpr("(?) AS e", events).
		ColumnExpr("e.target_id AS link_id, e.version AS number, link.id IS NOT NULL AS is_newest").
		Join("LEFT JOIN links AS link ON link.id = e.target_id AND link.version = e.version AND "+
			"link.version_operation = ? "+
			"AND link.version_cause <> ?", o.id, link.CauseReverted).
		OrderExpr("link.id IS NULL, e.id").Scan(ctx, &o.parts)
	if err != nil {
		return fmt.Errorf("reading the events of an operation: %w", err)
	}
	if len(o.parts) == 0 {
		return errNoOperation()
	}
	for _, p := range o.parts[min(len(o.parts), link.MaxBatch):] {
		if p.IsNewest {
			o.remaining++
		}
	}
	o.parts = o.parts[:min(len(o.parts), link.MaxBatch)]
	var around []versionKey
	for _, p := range o.parts {
		for number := p.Number - 1; number <= p.Number+1; number++ {
			around = append(around, versionKey{p.LinkID, number})
		}
	}
	o.versions, err = s.superseded(ctx, around...)
	return err
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

// undo undoes an operation in a link, if its newest version is that of the operation.
func (s *Store) undo(o *operation, p part, l *link.Link) error {
	if o.wasUndone(p, l) {
		return nil
	}
	if l.Version != p.Number || optional.Value(l.VersionOperation) != o.id {
		return errs.New(errs.Conflict,
			"The link has been changed since. Change it yourself, or revert it to a version.")
	}
	now, before := s.now(), o.versions[versionKey{l.ID, p.Number - 1}]
	switch {
	// the link has no state before
	case l.VersionCause == link.CauseCreated, l.VersionCause == link.CauseRestored, p.Number == 1:
		l.MarkDeleted(now)
		return nil
	case l.VersionCause == link.CauseDeleted:
		return l.UnmarkDeleted(now)
	case before == nil:
		return errNoVersion()
	case l.VersionCause == link.CauseRevived:
		l.MarkDeleted(now)
		return apply(&before.Snapshot, l, now)
	default:
		return s.revertTo(before, l)
	}
}

// wasUndone reports whether the version of the part, or the one after it, undid the operation.
func (o *operation) wasUndone(p part, l *link.Link) bool {
	return o.isUndo(p.Number, l) || o.isUndo(p.Number+1, l)
}

func (o *operation) isUndo(number int, l *link.Link) bool {
	v := o.versions[versionKey{l.ID, number}]
	if l.Version == number {
		v = &link.Version{Cause: l.VersionCause, OperationID: l.VersionOperation}
	}
	return v != nil && v.Cause == link.CauseReverted && optional.Value(v.OperationID) == o.id
}

// reasonOfUndo is the Reason for undoing the newest version of a link.
func reasonOfUndo(l *link.Link) link.Reason {
	switch l.VersionCause {
	case link.CauseCreated, link.CauseRestored, link.CauseRevived:
		return undoneCreation
	case link.CauseDeleted:
		return undoneDeletion
	default:
		return reverted
	}
}

func errNoOperation() error {
	return errs.New(errs.NotFound, "There is no such operation in the workspace, or it is older than 30 days.").
		At("operationId")
}
