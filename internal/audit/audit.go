// Package audit keeps what was changed in a workspace: by whom, when, and what it was. An event is written in the
// transaction of the change, so there is neither without the other.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
)

// Keep is how long events are kept.
const Keep = 400 * 24 * time.Hour

// Action is what was done.
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
	KeyRevoked           Action = "API_KEY_REVOKED"
	DomainAdded          Action = "DOMAIN_ADDED"
	DomainVerified       Action = "DOMAIN_VERIFIED"
	DomainPrimary        Action = "DOMAIN_MADE_PRIMARY"
	DomainLost           Action = "DOMAIN_LOST"
	DomainRemoved        Action = "DOMAIN_REMOVED"
	LinkCreated          Action = "LINK_CREATED"
	LinkUpdated          Action = "LINK_UPDATED"
	LinkDeleted          Action = "LINK_DELETED"
	LinkRestored         Action = "LINK_RESTORED"
	LinkClaimed          Action = "LINK_CLAIMED"
	LinkDisabled         Action = "LINK_DISABLED"
	LinkEnabled          Action = "LINK_ENABLED"
)

// Details say more of an action. They hold no secret and, since they outlive accounts, nothing personal.
type Details map[string]any

// Event is one change.
type Event struct {
	bun.BaseModel `bun:"table:audit_events,alias:event"`

	ID          string `bun:",pk"`
	WorkspaceID string
	// ActorID is the account's or the API key's that did it; empty for the server itself.
	ActorID string
	Action  Action
	// TargetID is what was changed.
	TargetID string
	// Details are a JSON object.
	Details   string
	CreatedAt time.Time
}

// New describes a change.
func New(workspaceID, actorID string, action Action, targetID string, d Details, at time.Time) *Event {
	text := []byte("{}")
	if len(d) > 0 {
		var err error
		if text, err = json.Marshal(d); err != nil {
			panic(err) // only a type that JSON does not know can do this
		}
	}
	return &Event{
		ID: id.New(id.Event), WorkspaceID: workspaceID, ActorID: actorID, Action: action, TargetID: targetID, Details: string(text),
		CreatedAt: db.Instant(at),
	}
}

// batch is how many events one statement reads or removes.
const batch = 1000

// Write keeps events, in the transaction of the changes.
func Write(ctx context.Context, tx bun.Tx, events ...*Event) error {
	if err := db.InsertRows(ctx, tx, db.Insert{}, events); err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	return nil
}

// Filter says which events: those for which everything that is given holds.
type Filter struct {
	// Actions are what was done; none means anything.
	Actions []Action
	// ActorID did it, TargetID was changed.
	ActorID, TargetID *string
	// From is the first instant, To the first one after the last.
	From, To *time.Time
}

// List is one page of a workspace's events, newest first. It returns InvalidInput.
func List(ctx context.Context, conn bun.IDB, workspaceID string, f *Filter, r page.Request) (page.Page[*Event], error) {
	var rows []*Event
	q := conn.NewSelect().Model(&rows).Where("workspace_id = ?", workspaceID)
	if f != nil {
		if err := f.check(); err != nil {
			return page.Page[*Event]{}, err
		}
		q = f.where(q)
	}
	if err := page.Limit(q, r, "event.id").Scan(ctx); err != nil {
		return page.Page[*Event]{}, fmt.Errorf("listing audit events: %w", err)
	}
	return page.Cut(r, rows), nil
}

// Many returns the workspace's events with the ids. Unknown ids are missing from the result.
func Many(ctx context.Context, conn bun.IDB, workspaceID string, ids ...string) ([]*Event, error) {
	var rows []*Event
	err := conn.NewSelect().Model(&rows).Where("workspace_id = ?", workspaceID).Where("id IN (?)", bun.In(ids)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking up audit events: %w", err)
	}
	return rows, nil
}

// maxID is how long an id in a filter may be.
const maxID = 100

func (f *Filter) check() error {
	for field, value := range map[string]*string{"actorId": f.ActorID, "targetId": f.TargetID} {
		if value != nil && (len(*value) > maxID || !plain(*value)) {
			return errs.New(errs.InvalidInput, "%s is not an id.", field).At("filter", field)
		}
	}
	return nil
}

func plain(s string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_') {
			return false
		}
	}
	return true
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

// Store looks after the events of all workspaces.
type Store struct {
	// DB is the database.
	DB *db.DB
	// Now is the clock.
	Now func() time.Time
}

// WorkspacesOf returns the workspaces of the events that exist, by event id. Other ids are missing.
// It does not check who may see them.
func (s *Store) WorkspacesOf(ctx context.Context, ids ...string) (map[string]string, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(one string) bool { return !id.Valid(id.Event, one) })
	spaces := make(map[string]string, len(ids))
	if len(ids) == 0 {
		return spaces, nil
	}
	var rows []Event
	err := s.DB.NewSelect().Model(&rows).Column("id", "workspace_id").Where("id IN (?)", bun.In(ids)).Scan(db.AsSystem(ctx))
	if err != nil {
		return nil, fmt.Errorf("looking for the workspaces of audit events: %w", err)
	}
	for _, row := range rows {
		spaces[row.ID] = row.WorkspaceID
	}
	return spaces, nil
}

// Exported is a change that a person has made.
type Exported struct {
	ID          string    `json:"id"`
	WorkspaceID string    `json:"workspaceId"`
	Action      Action    `json:"action"`
	TargetID    string    `json:"targetId"`
	Details     string    `json:"details"`
	CreatedAt   time.Time `json:"createdAt"`
}

// Export is a part of the changes that an account has made, in whichever workspaces: those after an id, and the id after
// which the next part begins, empty when there is none.
func (s *Store) Export(ctx context.Context, accountID, after string) (events []Exported, next string, err error) {
	events = []Exported{}
	err = s.DB.NewSelect().Model((*Event)(nil)).Column("id", "workspace_id", "action", "target_id", "details", "created_at").
		Where("actor_id = ?", accountID).Where("id > ?", after).
		// By person, not by workspace: the statement is bound to the account.
		Order("id").Limit(batch).Scan(db.AsSystem(ctx), &events)
	if err != nil {
		return nil, "", fmt.Errorf("exporting audit events: %w", err)
	}
	if len(events) == batch {
		next = events[len(events)-1].ID
	}
	return events, next, nil
}

// CleanUp removes events that are too old, in batches.
func (s *Store) CleanUp(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	before := db.Instant(s.Now()).Add(-Keep)
	for {
		// Ids are in the order of time: when the first of them are not too old, none is.
		first := s.DB.NewSelect().Model((*Event)(nil)).Column("id", "created_at").Order("id").Limit(batch)
		old := s.DB.NewSelect().TableExpr("(?) AS first", first).Column("id").Where("created_at <= ?", before)
		result, err := s.DB.NewDelete().Model((*Event)(nil)).Where("id IN (?)", old).Exec(ctx)
		if err != nil {
			return fmt.Errorf("removing audit events: %w", err)
		}
		if n, err := result.RowsAffected(); err != nil || n < batch {
			return err
		}
	}
}
