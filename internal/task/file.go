package task

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/workspace"
)

// chunkSize is the size of the chunks of a file.
const chunkSize = 1 << 20

// chunk is a part of the file of a task.
type chunk struct {
	bun.BaseModel `bun:"table:task_chunks,alias:chunk"`

	TaskID string `bun:",pk"`
	Upload string `bun:",pk"`
	Number int    `bun:",pk"`

	WorkspaceID string
	Bytes       []byte
}

// Receive stores the file of a task that waits for it, and has the task run. An interrupted call changes nothing that a
// repeated one would notice. It returns NotFound, Conflict if the file has arrived already, and Forbidden.
func (s *Store) Receive(ctx context.Context, m workspace.Membership, taskID string, file io.Reader, size int64) error {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return err
	}
	t, err := s.Rows(m).Get(ctx, m, taskID)
	if err != nil {
		return err
	}
	if t.Status != WaitingForUpload {
		return errReceived()
	}
	upload := id.New("upl_")
	others := s.DB.NewDelete().Model((*chunk)(nil)).Where("task_id = ?", taskID).Where("workspace_id = ?", m.ID()).
		Where("upload NOT IN (SELECT upload FROM tasks WHERE id = ? AND upload IS NOT NULL)", taskID)
	if _, err := others.Exec(ctx); err != nil {
		return fmt.Errorf("deleting an interrupted upload: %w", err)
	}
	chunks, received := 0, int64(0)
	for buffer := make([]byte, min(size, chunkSize)); received < size; chunks++ {
		n, err := io.ReadFull(file, buffer[:min(size-received, int64(len(buffer)))])
		if err != nil {
			return errs.New(errs.BadRequest, "The file has fewer bytes than Content-Length says. Send it again.").Because(err)
		}
		received += int64(n)
		if err := s.store(ctx, taskID, m.ID(), upload, chunks, buffer[:n]); err != nil {
			return err
		}
	}
	if err := s.store(ctx, taskID, m.ID(), upload, chunks, []byte{}); err != nil {
		return err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		q := tx.NewSelect().Model(t).Where("id = ?", taskID).Where("workspace_id = ?", m.ID()).
			Where("status = ?", WaitingForUpload)
		if err := s.DB.ForChange(q).Scan(ctx); errors.Is(err, sql.ErrNoRows) {
			return errReceived()
		} else if err != nil {
			return err
		}
		stored, err := tx.NewSelect().Model((*chunk)(nil)).Where("task_id = ?", taskID).Where("upload = ?", upload).Count(ctx)
		if err != nil {
			return err
		}
		if stored != int64(chunks)+1 { // a later upload has begun
			return errReceived()
		}
		_, err = tx.NewDelete().Model((*chunk)(nil)).Where("task_id = ?", taskID).Where("upload <> ?", upload).Exec(ctx)
		if err != nil {
			return err
		}
		t.Status, t.Upload, t.UpdatedAt, t.DueAt = Queued, &upload, s.now(), s.now()
		_, err = tx.NewUpdate().Model(t).WherePK().Column("status", "upload", "updated_at", "due_at").Exec(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("receiving a file: %w", err)
	}
	poll.Signal(s.wake)
	return nil
}

func errReceived() error {
	return errs.New(errs.Conflict, "The task does not wait for a file: it has one, was canceled, or gets another one at the moment.")
}

// store stores a chunk of an upload while the task waits for a file. An empty chunk ends the file. It returns Conflict.
func (s *Store) store(ctx context.Context, taskID, workspaceID, upload string, number int, bytes []byte) error {
	n, err := db.Affected(s.DB.NewRaw("INSERT INTO task_chunks (task_id, workspace_id, upload, number, bytes) "+
		"SELECT id, workspace_id, ?, ?, ? FROM tasks WHERE id = ? AND workspace_id = ? AND status = ?",
		upload, number, bytes, taskID, workspaceID, WaitingForUpload).Exec(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("storing a file: %w", err)
	case n == 0:
		return errReceived()
	}
	return nil
}

// Append appends a chunk to the file of a task that fetches its file itself, as a part of a step. An empty chunk ends the file.
func (h *Holding) Append(ctx context.Context, tx bun.Tx, number int, bytes []byte) error {
	c := &chunk{TaskID: h.ID, WorkspaceID: h.WorkspaceID, Number: number, Bytes: bytes}
	if _, err := tx.NewInsert().Model(c).Exec(ctx); err != nil {
		return fmt.Errorf("storing a part of a file: %w", err)
	}
	return nil
}

// HasFile reports whether the file of a task is still kept.
func (s *Store) HasFile(ctx context.Context, taskID string) (bool, error) {
	return s.DB.NewSelect().Model((*chunk)(nil)).Where("task_id = ?", taskID).Where("number = 0").Exists(ctx)
}

// File returns the file of a task. It reads a chunk at a time, with the context. Reading returns Expired if the file is not, or no
// longer, complete.
func (s *Store) File(ctx context.Context, taskID string) io.Reader {
	return &file{ctx: ctx, store: s, taskID: taskID}
}

type file struct {
	ctx    context.Context
	store  *Store
	taskID string
	number int
	rest   []byte
}

func (f *file) Read(into []byte) (int, error) {
	if len(f.rest) == 0 {
		c := &chunk{}
		err := f.store.DB.NewSelect().Model(c).Column("bytes").Where("task_id = ?", f.taskID).Where("number = ?", f.number).
			Where("upload = (SELECT COALESCE(upload, '') FROM tasks WHERE id = ?)", f.taskID).Scan(f.ctx)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return 0, errs.New(errs.Expired, "The file is no longer kept. Create another import.")
		case err != nil:
			return 0, fmt.Errorf("reading a file: %w", err)
		case len(c.Bytes) == 0:
			return 0, io.EOF
		}
		f.number, f.rest = f.number+1, c.Bytes
	}
	n := copy(into, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}
