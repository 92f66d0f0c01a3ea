// Package task runs long operations of workspaces: step by step, on one node at a time, with their
// progress in the database. A Handler knows one kind of them. The GraphQL resolvers list and cancel
// tasks, the packages of the kinds create them, and the server runs a Runner.
package task

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Kind is the kind of a task. Its text is the name in the GraphQL schema.
type Kind string

// The kinds: Import creates and updates links, ParityCheck compares the redirects of imported links
// with those of their source, and WorkspaceExport writes a workspace to an archive.
const (
	Import          Kind = "IMPORT"
	ParityCheck     Kind = "PARITY_CHECK"
	WorkspaceExport Kind = "WORKSPACE_EXPORT"
)

// permission is what starting and running a task of the kind requires.
func (k Kind) permission() workspace.Permission {
	if k == WorkspaceExport {
		return workspace.ReadLinks
	}
	return workspace.WriteLinks
}

// Status is the state of a task. Its text is the name in the GraphQL schema.
type Status string

// The states: the last three are final.
const (
	WaitingForUpload Status = "WAITING_FOR_UPLOAD"
	Queued           Status = "QUEUED"
	Running          Status = "RUNNING"
	Succeeded        Status = "SUCCEEDED"
	Failed           Status = "FAILED"
	Canceled         Status = "CANCELED"
)

const (
	// maxUnfinished bounds the unfinished tasks of a workspace.
	maxUnfinished = 20
	// UploadLife is how long a task waits for its file.
	UploadLife = time.Hour
	// fileLife is how long the file of an import is retained after the task has ended.
	fileLife = 7 * 24 * time.Hour
	// ArchiveLife is how long the archive of an export is retained after the task has ended.
	ArchiveLife = 3 * 24 * time.Hour
	// retention is how long a task is retained after it has ended.
	retention = 30 * 24 * time.Hour
	// cleanUpBatch is how many tasks a statement of the clean-up deletes: their rows go with them.
	cleanUpBatch = 10
)

// Task is a long operation of a workspace.
type Task struct {
	bun.BaseModel `bun:"table:tasks,alias:task"`
	lease.Columns

	ID          string `bun:",pk"`
	WorkspaceID string
	Kind        Kind
	Status      Status
	// Input are the arguments, as JSON. Cursor is the position at which the handler resumes.
	Input, Cursor string
	// Secret is a sealed secret of the arguments, until the task ends; nil means none.
	Secret []byte
	// Upload is the upload that is the file, or that the task waits for; nil means none. With KeepsFile, the file of a
	// successful task is retained for fileLife.
	Upload    *string
	KeepsFile bool
	// Outside means that the next steps wait for other servers.
	Outside bool
	// FileBytes is the size of the file, and StoredRows how many rows of the report are kept.
	FileBytes, StoredRows int64
	// Done is the number of items processed, and Total that of all; nil means unknown.
	Done  int64
	Total *int64
	// Attempts is how often the task was taken since it last advanced. No node takes it before
	// DueAt.
	Attempts          int
	DueAt             time.Time
	CancelRequestedAt *time.Time
	// ErrorCode and Error are why the task failed.
	ErrorCode, Error *string
	// ActorID is the id of the account or the API key that started it.
	ActorID string
	// OperationID is the operation by which package edit undoes the task.
	OperationID string
	CreatedAt   time.Time
	StartedAt   *time.Time
	UpdatedAt   time.Time
	FinishedAt  *time.Time

	// In is the membership through which the task was loaded.
	In workspace.Membership `bun:"-"`
}

func (*Task) IsEntity() {} // an entity of Apollo Federation

// Failure returns why the task failed; nil if it has not.
func (t *Task) Failure() *errs.Error {
	if t.ErrorCode == nil {
		return nil
	}
	return errs.New(errs.Coded(*t.ErrorCode), "%s", *cmp.Or(t.Error, new(string)))
}

// Store stores tasks.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// FileBytes and ArchiveBytes are the largest sizes of the file of an import and of an archive;
	// zero selects 64 MiB and 1 GiB.
	FileBytes, ArchiveBytes int64

	sealed secrets.Box
	wake   chan struct{}
	// turn and renewEvery are the constants, except in tests.
	turn, renewEvery time.Duration
}

// NewStore returns a Store, which seals secrets with the box.
func NewStore(d *db.DB, box secrets.Box, now func() time.Time) *Store {
	return &Store{DB: d, Now: now, sealed: box, wake: make(chan struct{}, 1), turn: turn, renewEvery: lease.RenewEvery}
}

func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// Filter selects tasks that match all fields that are set. No kinds or statuses permit all.
type Filter struct {
	Kinds    []Kind
	Statuses []Status
}

// Rows returns the tasks of workspaces. To an API key with a fence, only its own exist.
func (s *Store) Rows(m workspace.Membership) workspace.Collection[Task] {
	c := workspace.Collection[Task]{
		DB: s.DB, Permission: workspace.ReadLinks, Prefix: id.Task, Column: "id", Omit: []string{"secret"},
		Missing: "There is no such task.",
		In:      func(t *Task, m workspace.Membership) { t.In = m },
	}
	if m.Fence() != nil {
		c.Where, c.Args = "actor_id = ?", []any{m.ActorID()}
	}
	return c
}

// WorkspacesOf returns the workspaces of the tasks that exist. It does not check permissions: call
// RequireEach.
func (s *Store) WorkspacesOf(ctx context.Context, ids ...string) (map[string]string, error) {
	return s.Rows(workspace.Membership{}).WorkspacesOf(ctx, ids...)
}

// WorkspaceOf returns the workspace of a task. It does not check permissions: call Require. It
// returns NotFound.
func (s *Store) WorkspaceOf(ctx context.Context, taskID string) (string, error) {
	return s.Rows(workspace.Membership{}).WorkspaceOf(ctx, taskID)
}

// List returns one page of the workspace's tasks, newest first. It returns Forbidden.
func (s *Store) List(ctx context.Context, m workspace.Membership, f Filter, r page.Request) (page.Page[*Task], error) {
	rows := s.Rows(m)
	if rows.Where == "" {
		rows.Where = "TRUE"
	}
	if len(f.Kinds) > 0 {
		rows.Where, rows.Args = rows.Where+" AND kind IN (?)", append(rows.Args, bun.In(f.Kinds))
	}
	if len(f.Statuses) > 0 {
		rows.Where, rows.Args = rows.Where+" AND status IN (?)", append(rows.Args, bun.In(f.Statuses))
	}
	return rows.List(ctx, m, r)
}

// ByID returns the tasks of the workspace with the ids. Unknown ids are omitted. It returns
// Forbidden.
func (s *Store) ByID(ctx context.Context, m workspace.Membership, ids ...string) ([]*Task, error) {
	return s.Rows(m).ByID(ctx, m, ids...)
}

// New is a task to create.
type New struct {
	Kind Kind
	// Status is Queued or WaitingForUpload.
	Status Status
	// Input are the arguments, which JSON can hold, without their secret.
	Input any
	// Source is where an import reads; empty for other tasks.
	Source string
	Secret []byte
	// Total is the number of items; nil means unknown.
	Total *int64
	// KeepsFile keeps the file when the task has succeeded.
	KeepsFile bool
	// Outside means that the first steps wait for other servers, until Holding.Compute.
	Outside bool
}

// Create creates a task. It runs at once unless it waits for an upload. It returns QuotaExceeded or
// Forbidden.
func (s *Store) Create(ctx context.Context, m workspace.Membership, in New) (*Task, error) {
	ctx, err := m.Enter(ctx, in.Kind.permission())
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(in.Input)
	if err != nil {
		return nil, fmt.Errorf("encoding the arguments of a task: %w", err)
	}
	now := s.now()
	t := &Task{
		ID: id.New(id.Task), WorkspaceID: m.ID(), Kind: in.Kind, Status: in.Status, Input: string(text),
		Total: in.Total, KeepsFile: in.KeepsFile, Outside: in.Outside, DueAt: now,
		ActorID: m.ActorID(), OperationID: id.New(id.Operation), CreatedAt: now, UpdatedAt: now, In: m,
	}
	if in.Secret != nil {
		if t.Secret, err = s.sealed.Seal(secrets.TaskSecret, t.ID, in.Secret); err != nil {
			return nil, err
		}
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		unfinished, err := workspace.LockAndCount(ctx, s.DB, tx, m.ID(), (*Task)(nil), "finished_at IS NULL")
		if err != nil {
			return err
		}
		if unfinished >= maxUnfinished {
			return errs.New(errs.QuotaExceeded,
				"A workspace has at most %d unfinished tasks. Wait until one ends, or cancel one.",
				maxUnfinished)
		}
		if _, err := tx.NewInsert().Model(t).Exec(ctx); err != nil {
			return err
		}
		details := audit.Details{"kind": t.Kind}
		if in.Source != "" {
			details["source"] = in.Source
		}
		return m.Audit(ctx, tx, now, audit.TaskStarted, t.ID, details)
	})
	if err != nil {
		return nil, fmt.Errorf("creating a task: %w", err)
	}
	poll.Signal(s.wake)
	return t, nil
}

// Cancel cancels a task: at once if no node runs it, or else after its current step. A task that
// has ended stays as it is. Others than its actor need the permission to write links. It returns
// NotFound or Forbidden.
func (s *Store) Cancel(ctx context.Context, m workspace.Membership, taskID string) (*Task, error) {
	t, err := s.Rows(m).Get(ctx, m, taskID)
	if err != nil {
		return nil, err
	}
	permission := workspace.WriteLinks
	if t.ActorID == m.ActorID() {
		permission = workspace.ReadLinks
	}
	if ctx, err = m.Enter(ctx, permission); err != nil {
		return nil, err
	}
	t = &Task{In: m}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		q := tx.NewSelect().Model(t).Where("id = ?", taskID).Where("workspace_id = ?", m.ID())
		if err := s.DB.ForChange(q).Scan(ctx); err != nil {
			return db.NoRowsAs(s.Rows(m).NotFound(), err, "locking a task")
		}
		now := s.now()
		switch {
		case t.FinishedAt != nil || t.CancelRequestedAt != nil:
			return nil
		case t.Status == Running:
			t.CancelRequestedAt = &now
			_, err := tx.NewUpdate().Model(t).Column("cancel_requested_at").WherePK().Exec(ctx)
			return err
		}
		return s.finish(ctx, tx, t, Canceled, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("canceling a task: %w", err)
	}
	return t, nil
}

// finish ends a task that the transaction has locked, deletes its file unless it is retained, and
// writes the event. failure is why it has failed.
func (s *Store) finish(ctx context.Context, tx bun.Tx, t *Task, status Status, failure *errs.Error) error {
	now := s.now()
	t.Status, t.FinishedAt, t.UpdatedAt, t.LeaseHolder, t.LeaseUntil, t.Secret = status, &now, now, nil, nil, nil
	if failure != nil {
		t.ErrorCode, t.Error = new(failure.Kind.Code()), new(failure.Message)
	}
	_, err := tx.NewUpdate().Model(t).WherePK().
		Column("status", "finished_at", "updated_at", "lease_holder", "lease_until", "secret", "error_code", "error").
		Exec(ctx)
	if err != nil {
		return err
	}
	if err := s.retain(ctx, tx, t); err != nil {
		return fmt.Errorf("deleting the file of a task: %w", err)
	}
	details := audit.Details{"kind": t.Kind, "status": status, "done": t.Done}
	return audit.Write(ctx, tx, audit.New(t.WorkspaceID, t.ActorID, audit.TaskFinished, t.ID, details, now))
}

// retain deletes the file of a task that has ended, or older ones if it is retained.
func (s *Store) retain(ctx context.Context, tx bun.Tx, t *Task) error {
	if !t.KeepsFile || t.Status != Succeeded {
		return deleteFiles(ctx, tx, []string{t.ID})
	}
	account, err := responsible(ctx, tx, t.ID)
	if err != nil {
		return err
	}
	all, err := storedOf(ctx, tx, account)
	if err != nil {
		return err
	}
	files, _, _ := s.excess(all)
	return deleteFiles(ctx, tx, files)
}

// CleanUp cancels tasks whose file has not arrived in time, and deletes old files and ended tasks.
func (s *Store) CleanUp(ctx context.Context) error {
	now := s.now()
	ctx = db.AsSystem(ctx)
	for {
		t := &Task{}
		err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			q := tx.NewSelect().Model(t).Where("finished_at IS NULL").Where("status = ?", WaitingForUpload).
				Where("created_at <= ?", now.Add(-UploadLife)).Limit(1)
			if err := s.DB.SkipLocked(q).Scan(ctx); err != nil {
				return err
			}
			return s.finish(ctx, tx, t, Canceled, nil)
		})
		if errors.Is(err, sql.ErrNoRows) {
			break
		} else if err != nil {
			return fmt.Errorf("canceling tasks without a file: %w", err)
		}
	}
	old := s.DB.NewSelect().Model((*Task)(nil)).Column("id").
		Where("finished_at <= ? OR kind = ? AND finished_at <= ?", now.Add(-fileLife), WorkspaceExport,
			now.Add(-ArchiveLife))
	var taskIDs []string
	if err := old.Where("file_bytes > 0").Scan(ctx, &taskIDs); err != nil {
		return fmt.Errorf("reading the files of tasks: %w", err)
	}
	if err := deleteFiles(ctx, s.DB, taskIDs); err != nil {
		return err
	}
	return s.delete(ctx, "finished_at <= ?", now.Add(-retention))
}

// Purge deletes the tasks of a workspace that is being purged. The context must have the scope of
// the system.
func (s *Store) Purge(ctx context.Context, workspaceID string) error {
	return s.delete(ctx, "workspace_id = ?", workspaceID)
}

// delete deletes the tasks that a condition selects, with their rows.
func (s *Store) delete(ctx context.Context, condition string, args ...any) error {
	some := s.DB.NewSelect().Model((*Task)(nil)).Column("id").Where(condition, args...).Limit(cleanUpBatch)
	_, err := db.InBatches(cleanUpBatch, func() (int64, error) {
		return db.Affected(s.DB.NewDelete().Model((*Task)(nil)).Where("id IN (?)", some).Exec(ctx))
	})
	if err != nil {
		return fmt.Errorf("deleting tasks: %w", err)
	}
	return nil
}
