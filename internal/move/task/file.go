package task

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// ChunkSize is the largest size of the chunks of a file.
const ChunkSize = 1 << 20

// chunk is a part of the file of a task.
type chunk struct {
	bun.BaseModel `bun:"table:task_chunks,alias:chunk"`

	TaskID string `bun:",pk"`
	Upload string `bun:",pk"`
	Number int    `bun:",pk"`

	WorkspaceID string
	Bytes       []byte
}

// Receive stores the file of a task that waits for it, and has the task run. An interrupted call
// changes nothing that a repeated one would notice. It returns NotFound, Conflict if the file has
// arrived already, QuotaExceeded if too much is stored, Forbidden, and TooSlow of the body.
func (s *Store) Receive(ctx context.Context, m workspace.Membership, taskID string, body io.Reader, size int64) error {
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
	if err := s.reserve(ctx, file{t.ID, m.ID(), t.Kind, upload, size}); err != nil {
		return err
	}
	others := s.DB.NewDelete().Model((*chunk)(nil)).Where("task_id = ?", taskID).Where("workspace_id = ?", m.ID()).
		Where("upload NOT IN (SELECT upload FROM tasks WHERE id = ? AND upload IS NOT NULL)", taskID)
	if _, err := others.Exec(ctx); err != nil {
		return fmt.Errorf("deleting an interrupted upload: %w", err)
	}
	chunks, received := 0, int64(0)
	for buffer := make([]byte, min(size, ChunkSize)); received < size; chunks++ {
		n, err := io.ReadFull(body, buffer[:min(size-received, int64(len(buffer)))])
		if errs.Is(err, errs.TooSlow) {
			return err
		}
		if err != nil {
			return errs.New(errs.BadRequest, "The file has fewer bytes than Content-Length says. Send it again.").
				Because(err)
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
			Where("status = ?", WaitingForUpload).Where("upload = ?", upload)
		if err := s.DB.ForChange(q).Scan(ctx); errors.Is(err, sql.ErrNoRows) {
			return errReceived()
		} else if err != nil {
			return err
		}
		others := tx.NewDelete().Model((*chunk)(nil)).Where("task_id = ?", taskID).Where("upload <> ?", upload)
		if _, err := others.Exec(ctx); err != nil {
			return err
		}
		t.Status, t.UpdatedAt, t.DueAt = Queued, s.now(), s.now()
		_, err := tx.NewUpdate().Model(t).WherePK().Column("status", "updated_at", "due_at").Exec(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("receiving a file: %w", err)
	}
	poll.Signal(s.wake)
	return nil
}

func errReceived() error {
	return errs.New(errs.Conflict,
		"The task does not wait for a file: it has one, was canceled, or gets another one at the moment.")
}

// store stores a chunk of the upload that a task waits for, until a later one begins. An empty chunk ends the file.
// It returns Conflict.
func (s *Store) store(ctx context.Context, taskID, workspaceID, upload string, number int, bytes []byte) error {
	n, err := db.Affected(s.DB.NewRaw("INSERT INTO task_chunks (task_id, workspace_id, upload, number, bytes) "+
		"SELECT id, workspace_id, ?, ?, ? FROM tasks WHERE id = ? AND workspace_id = ? AND status = ? AND upload = ?",
		upload, number, bytes, taskID, workspaceID, WaitingForUpload, upload).Exec(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("storing a file: %w", err)
	case n == 0:
		return errReceived()
	}
	return nil
}

// Append appends a chunk to the file of a task that fetches its file itself, as a part of a step.
// An empty chunk ends the file.
func (h *Holding) Append(ctx context.Context, tx bun.Tx, number int, bytes []byte) error {
	c := &chunk{TaskID: h.ID, WorkspaceID: h.WorkspaceID, Number: number, Bytes: bytes}
	if _, err := tx.NewInsert().Model(c).Exec(ctx); err != nil {
		return fmt.Errorf("storing a part of a file: %w", err)
	}
	_, err := tx.NewUpdate().Model((*Task)(nil)).Set("file_bytes = file_bytes + ?", len(bytes)).Where("id = ?", h.ID).
		Exec(ctx)
	return err
}

// HasFile reports whether the file of a task is still kept.
func (s *Store) HasFile(ctx context.Context, taskID string) (bool, error) {
	return s.DB.NewSelect().Model((*chunk)(nil)).Where("task_id = ?", taskID).Where("number = 0").Exists(ctx)
}

// FileGrant is the file of a task that a signed URL permits to send or to read.
type FileGrant struct {
	secrets.Grant
	TaskID string `json:"t"`
}

// File is the file of a task. It reads a chunk at a time, with the context of OpenFile.
type File struct {
	ctx    context.Context
	store  *Store
	taskID string
	// ends are the positions at which chunks end; without an empty last chunk, the file is not
	// complete. at is that of the next byte.
	ends       []int64
	isComplete bool
	at         int64
	// chunk is the one with the number, from 1; zero means none.
	number int
	chunk  []byte
}

// OpenFile returns the file of a task. It returns Expired if there is none, and so does reading at
// the end of an incomplete one.
func (s *Store) OpenFile(ctx context.Context, taskID string) (*File, error) {
	var sizes []int64
	err := s.chunks(taskID).ColumnExpr("length(bytes)").Order("number").Scan(ctx, &sizes)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the sizes of a file: %w", err)
	case len(sizes) == 0:
		return nil, errGone()
	}
	f := &File{ctx: ctx, store: s, taskID: taskID, isComplete: sizes[len(sizes)-1] == 0}
	for _, size := range sizes {
		f.ends = append(f.ends, f.Size()+size)
	}
	return f, nil
}

// chunks selects the chunks of the file of a task.
func (s *Store) chunks(taskID string) *bun.SelectQuery {
	return s.DB.NewSelect().Model((*chunk)(nil)).Where("task_id = ?", taskID).
		Where("upload = (SELECT COALESCE(upload, '') FROM tasks WHERE id = ?)", taskID)
}

func errGone() error {
	return errs.New(errs.Expired, "The file is no longer kept. Create another task.")
}

// Size returns the size in bytes.
func (f *File) Size() int64 {
	if len(f.ends) == 0 {
		return 0
	}
	return f.ends[len(f.ends)-1]
}

// Seek implements io.Seeker.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.Size()
	}
	if offset < 0 {
		return 0, errors.New("seeking before the beginning of a file")
	}
	f.at = offset
	return offset, nil
}

// Read implements io.Reader.
func (f *File) Read(into []byte) (int, error) {
	switch {
	case f.at >= f.Size() && f.isComplete:
		return 0, io.EOF
	case f.at >= f.Size():
		return 0, errGone()
	}
	number := sort.Search(len(f.ends), func(i int) bool { return f.ends[i] > f.at })
	begin := int64(0)
	if number > 0 {
		begin = f.ends[number-1]
	}
	if f.number != number+1 {
		err := f.store.chunks(f.taskID).Column("bytes").Where("number = ?", number).Scan(f.ctx, &f.chunk)
		switch {
		case errors.Is(err, sql.ErrNoRows) || err == nil && begin+int64(len(f.chunk)) != f.ends[number]:
			return 0, errGone()
		case err != nil:
			return 0, fmt.Errorf("reading a file: %w", err)
		}
		f.number = number + 1
	}
	n := copy(into, f.chunk[f.at-begin:])
	f.at += int64(n)
	return n, nil
}
