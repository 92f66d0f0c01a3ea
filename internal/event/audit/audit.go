// Package audit owns the audit log: who changed what in a workspace, and when. An event is written
// in the transaction of the change, so neither exists without the other. It does not check
// permissions. Every package that changes tenant data writes events. Packages workspace,
// eventstream, webhook, link and graph read them.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
)

// Retention is how long events are stored.
const Retention = 400 * 24 * time.Hour

// Action is the type of a change.
type Action string

// The actions.
const (
	WorkspaceCreated     Action = "WORKSPACE_CREATED"
	WorkspaceUpdated     Action = "WORKSPACE_UPDATED"
	WorkspaceDeleted     Action = "WORKSPACE_DELETED"
	WorkspaceRestored    Action = "WORKSPACE_RESTORED"
	MemberInvited        Action = "MEMBER_INVITED"
	InvitationRevoked    Action = "INVITATION_REVOKED"
	MemberJoined         Action = "MEMBER_JOINED"
	MemberRoleUpdated    Action = "MEMBER_ROLE_UPDATED"
	MemberRemoved        Action = "MEMBER_REMOVED"
	OwnershipTransferred Action = "OWNERSHIP_TRANSFERRED"
	KeyCreated           Action = "API_KEY_CREATED"
	KeyRotated           Action = "API_KEY_ROTATED"
	KeyRevoked           Action = "API_KEY_REVOKED"
	DomainAdded          Action = "DOMAIN_ADDED"
	DomainVerified       Action = "DOMAIN_VERIFIED"
	DomainPrimary        Action = "DOMAIN_MADE_PRIMARY"
	DomainFailing        Action = "DOMAIN_FAILING"
	DomainLost           Action = "DOMAIN_LOST"
	DomainRemoved        Action = "DOMAIN_REMOVED"
	DomainUpdated        Action = "DOMAIN_UPDATED"
	FolderCreated        Action = "FOLDER_CREATED"
	FolderUpdated        Action = "FOLDER_UPDATED"
	FolderDeleted        Action = "FOLDER_DELETED"
	UTMTemplateCreated   Action = "UTM_TEMPLATE_CREATED"
	UTMTemplateUpdated   Action = "UTM_TEMPLATE_UPDATED"
	UTMTemplateDeleted   Action = "UTM_TEMPLATE_DELETED"
	TagsReplaced         Action = "TAGS_REPLACED"
	LinkCreated          Action = "LINK_CREATED"
	LinkUpdated          Action = "LINK_UPDATED"
	LinkDeleted          Action = "LINK_DELETED"
	LinkRestored         Action = "LINK_RESTORED"
	LinkClaimed          Action = "LINK_CLAIMED"
	LinkDisabled         Action = "LINK_DISABLED"
	LinkEnabled          Action = "LINK_ENABLED"
	LinkPurged           Action = "LINK_PURGED"
	LinkStarted          Action = "LINK_STARTED"
	LinkExpired          Action = "LINK_EXPIRED"
	LinkExhausted        Action = "LINK_EXHAUSTED"
	WebhookCreated       Action = "WEBHOOK_CREATED"
	WebhookUpdated       Action = "WEBHOOK_UPDATED"
	WebhookDeleted       Action = "WEBHOOK_DELETED"
	WebhookSecretRotated Action = "WEBHOOK_SECRET_ROTATED"
	WebhookDisabled      Action = "WEBHOOK_DISABLED"
	LinkChangeScheduled  Action = "LINK_CHANGE_SCHEDULED"
	LinkChangeCanceled   Action = "LINK_CHANGE_CANCELED"
	DestinationFailed    Action = "DESTINATION_FAILED"
	DestinationRecovered Action = "DESTINATION_RECOVERED"
	TaskStarted          Action = "TASK_STARTED"
	TaskFinished         Action = "TASK_FINISHED"
)

// LinkClicked is a type of event that is never in the log.
const LinkClicked Action = "LINK_CLICKED"

// Details describe an action further. They contain no secrets and, because they outlive accounts,
// no personal data.
type Details map[string]any

// Event is one change. TestIndexes_AreUsed names the queries that need the indexes of the table.
type Event struct {
	bun.BaseModel `bun:"table:audit_events,alias:event"`

	ID          string `bun:",pk"`
	WorkspaceID string
	// ActorID is the ID of an account or API key; empty for the server itself.
	ActorID  string
	Action   Action
	TargetID string
	// Details are a JSON object.
	Details   string
	CreatedAt time.Time
	// Version is the number of the link's version after the change; nil for other changes.
	Version *int
	// Changes are FieldChanges as a JSON list; nil means none.
	Changes *string
	// OperationID is the bulk call that the change was part of, or that it undid; nil for none.
	OperationID *string
	// EffectiveAt is when the change took effect, if that is not CreatedAt.
	EffectiveAt *time.Time
	// URL is the destination that the event is about; nil for other events, and for a purged link.
	URL *string
}

// New returns an event to Write.
func New(workspaceID, actorID string, action Action, targetID string, d Details, at time.Time) *Event {
	text := []byte("{}")
	if len(d) > 0 {
		var err error
		if text, err = json.Marshal(d); err != nil {
			panic(err) // only a type that JSON does not know can do this
		}
	}
	return &Event{
		ID: id.New(id.Event), WorkspaceID: workspaceID, ActorID: actorID, Action: action, TargetID: targetID,
		Details: string(text), CreatedAt: db.Instant(at),
	}
}

// batch is how many events one statement reads or deletes.
const batch = 1000

// Write stores events in the transaction of their changes.
func Write(ctx context.Context, tx bun.Tx, events ...*Event) error {
	if len(events) == 0 {
		return nil
	}
	var err error
	if tx.Dialect().Name() == dialect.PG {
		err = db.InsertRows(ctx, tx, insertion(events), events)
	} else {
		err = insertNumbered(ctx, tx, db.Insert{Without: nullColumns(events)}, events)
	}
	if err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	return nil
}

// insertion inserts events on PostgreSQL, where a sequence numbers them.
func insertion(events []*Event) db.Insert {
	return db.Insert{Without: nullColumns(events), Computed: []db.Computed{{Column: "xid", Value: orderXID}}}
}

// orderXID is the transaction that orders an event: its own, or a later one that already has events
// of its workspace. A transaction that began to write first may have waited for the lock of a row
// that the later one has changed since, and its event must follow the later one's. No reader passes
// that position before both have ended.
const orderXID = `greatest(pg_current_xact_id()::TEXT::BIGINT, (
	SELECT max(earlier.xid) FROM audit_events AS earlier WHERE earlier.workspace_id = input.workspace_id
		AND earlier.seq IS NOT NULL AND earlier.xid > pg_current_xact_id()::TEXT::BIGINT))`

// insertNumbered inserts events on SQLite, which has one writer at a time, with the next numbers.
func insertNumbered(ctx context.Context, tx bun.Tx, in db.Insert, events []*Event) error {
	var last int64
	err := tx.NewRaw("UPDATE event_numbers SET last = last + ? RETURNING last", len(events)).Scan(ctx, &last)
	if err != nil {
		return err
	}
	rows := make([]numbered, len(events))
	for i, e := range events {
		rows[i] = numbered{Event: *e, Seq: last - int64(len(events)-1-i)}
	}
	return db.InsertRows(ctx, tx, in, rows)
}

// numbered is an event with its position on SQLite.
type numbered struct {
	Event `bun:",extend"`

	XID int64 `bun:"xid"` // zero
	Seq int64
}

// nullColumns returns the columns that are null in all events, as in those of creations: inserting
// them would cost as much as other columns.
func nullColumns(events []*Event) (columns []string) {
	for column, isSet := range map[string]func(e *Event) bool{
		"changes":      func(e *Event) bool { return e.Changes != nil },
		"operation_id": func(e *Event) bool { return e.OperationID != nil },
		"effective_at": func(e *Event) bool { return e.EffectiveAt != nil },
	} {
		if !slices.ContainsFunc(events, isSet) {
			columns = append(columns, column)
		}
	}
	return columns
}

// ForgetValues removes the values before and after changes from the events of objects.
func ForgetValues(ctx context.Context, tx bun.Tx, targetIDs ...string) error {
	_, err := tx.NewUpdate().Model((*Event)(nil)).Set("changes = NULL").Set("url = NULL").
		Where("target_id IN (?)", bun.In(targetIDs)).Where("changes IS NOT NULL OR url IS NOT NULL").Exec(ctx)
	if err != nil {
		return fmt.Errorf("removing values from the audit log: %w", err)
	}
	return nil
}

// Filter selects events that match all fields that are set.
type Filter struct {
	Actions           []Action
	ActorID, TargetID *string
	// From is inclusive, To exclusive.
	From, To *time.Time
}

// List returns one page of a workspace's events, newest first. It returns InvalidInput.
func List(ctx context.Context, conn bun.IDB, workspaceID string, f *Filter, r page.Request) (page.Page[*Event], error) {
	var rows []*Event
	q := conn.NewSelect().Model(&rows).Where("workspace_id = ?", workspaceID)
	if err := f.Check(); err != nil {
		return page.Page[*Event]{}, err
	}
	if f != nil {
		q = f.where(q)
	}
	if err := page.Limit(q, r, "event.id").Scan(ctx); err != nil {
		return page.Page[*Event]{}, fmt.Errorf("listing audit events: %w", err)
	}
	return page.Cut(r, rows), nil
}

// Many returns the workspace's events with the IDs. Unknown ids are missing from the result.
func Many(ctx context.Context, conn bun.IDB, workspaceID string, ids ...string) ([]*Event, error) {
	var rows []*Event
	err := conn.NewSelect().Model(&rows).
		Where("workspace_id = ?", workspaceID).Where("id IN (?)", bun.In(ids)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking up audit events: %w", err)
	}
	return rows, nil
}

// maxID is the maximum length of an ID in a filter.
const maxID = 100

// idCharacters are the characters of IDs.
const idCharacters = "abcdefghijklmnopqrstuvwxyz0123456789_"

// Check returns the InvalidInput of a filter; a nil Filter is valid.
func (f *Filter) Check() error {
	if f == nil {
		return nil
	}
	check := func(value *string, field string) error {
		if value == nil || len(*value) <= maxID && strings.Trim(*value, idCharacters) == "" {
			return nil
		}
		return errs.New(errs.InvalidInput, "%s is not an id.", field).At("filter", field)
	}
	return errs.All(check(f.ActorID, "actorId"), check(f.TargetID, "subjectId"))
}

func (f *Filter) where(q *bun.SelectQuery) *bun.SelectQuery {
	if len(f.Actions) > 0 {
		q = q.Where("action IN (?)", bun.In(f.Actions))
	}
	if f.ActorID != nil {
		q = q.Where("actor_id = ?", *f.ActorID)
	}
	if f.TargetID != nil {
		q = q.Where("target_id = ?", *f.TargetID)
	}
	if f.From != nil {
		q = q.Where("created_at >= ?", db.Instant(*f.From))
	}
	if f.To != nil {
		q = q.Where("created_at < ?", db.Instant(*f.To))
	}
	return q
}

// Store reads and deletes events of all workspaces.
type Store struct {
	DB  *db.DB
	Now func() time.Time
}

// WorkspacesOf returns the workspaces of the events that exist, by event ID. Other IDs are missing.
// It does not check permissions.
func (s *Store) WorkspacesOf(ctx context.Context, ids ...string) (map[string]string, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(eventID string) bool { return !id.Valid(id.Event, eventID) })
	spaces := make(map[string]string, len(ids))
	if len(ids) == 0 {
		return spaces, nil
	}
	var rows []Event
	err := s.DB.NewSelect().Model(&rows).Column("id", "workspace_id").Where("id IN (?)", bun.In(ids)).
		Scan(db.AsSystem(ctx))
	if err != nil {
		return nil, fmt.Errorf("looking up the workspaces of audit events: %w", err)
	}
	for _, row := range rows {
		spaces[row.ID] = row.WorkspaceID
	}
	return spaces, nil
}

// Exported is a change that a user made.
type Exported struct {
	ID          string    `json:"id"`
	WorkspaceID string    `json:"workspaceId"`
	Action      Action    `json:"type"`
	TargetID    string    `json:"subjectId"`
	Details     string    `json:"details"`
	CreatedAt   time.Time `json:"createdAt"`
}

// Export returns a batch of an account's changes after an ID, in the workspaces to which opened
// restricts the query. next is the ID to continue after; empty at the end.
func (s *Store) Export(
	ctx context.Context, accountID string, opened func(*bun.SelectQuery) *bun.SelectQuery, after string,
) (events []Exported, next string, err error) {
	events = []Exported{}
	err = s.DB.NewSelect().Model((*Event)(nil)).
		Column("id", "workspace_id", "action", "target_id", "details", "created_at").
		// bound to the account, not to a workspace
		Where("actor_id = ?", accountID).Where("id > ?", after).Apply(opened).
		Order("id").Limit(batch).Scan(db.AsSystem(ctx), &events)
	if err != nil {
		return nil, "", fmt.Errorf("exporting audit events: %w", err)
	}
	if len(events) == batch {
		next = events[len(events)-1].ID
	}
	return events, next, nil
}

// CleanUp deletes events older than Retention, in batches.
func (s *Store) CleanUp(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	before := db.Instant(s.Now()).Add(-Retention)
	_, err := db.InBatches(batch, func() (int64, error) {
		// IDs are ordered by time: if the first ones are not too old, none is.
		first := s.DB.NewSelect().Model((*Event)(nil)).Column("id", "created_at").Order("id").Limit(batch)
		old := s.DB.NewSelect().TableExpr("(?) AS first", first).Column("id").Where("created_at <= ?", before)
		return db.Affected(s.DB.NewDelete().Model((*Event)(nil)).Where("id IN (?)", old).Exec(ctx))
	})
	if err != nil {
		return fmt.Errorf("removing audit events: %w", err)
	}
	return nil
}
