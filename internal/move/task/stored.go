package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// What the tasks of a workspace store, and those of the account that is responsible for it, is
// bounded. Of ended tasks the oldest lose their files, or the rows of their reports, to newer ones.
const (
	// maxFiles bounds the files of imports that are retained for a workspace, and maxArchives its
	// archives.
	maxFiles    = 20
	maxArchives = 3
	// Files of imports have up to importsOfWorkspace and importsOfAccount times the largest size of
	// one, and archives archivesOfAccount times theirs.
	importsOfWorkspace = 4
	importsOfAccount   = 16
	archivesOfAccount  = 8
	// maxReports bounds the tasks of a workspace whose rows are kept, maxRows these rows, and
	// maxRowsOfAccount those of an account.
	maxReports       = 200
	maxRows          = 1000000
	maxRowsOfAccount = 2000000
	// The largest files of stores without others.
	defaultFileBytes    = 64 << 20
	defaultArchiveBytes = 1 << 30
	// deletedAtOnce is how many rows of a report a statement deletes.
	deletedAtOnce = 10_000
)

// stored is a task that stores something.
type stored struct {
	ID, WorkspaceID       string
	Kind                  Kind
	FileBytes, StoredRows int64
	FinishedAt            *time.Time
}

// file is one that an upload is to store.
type file struct {
	id, workspaceID string
	kind            Kind
	upload          string
	bytes           int64
}

// subject is what a bound counts: files or rows, of a workspace or of the account.
type subject struct {
	what        string
	kind        Kind
	workspaceID string
}

// excess returns which ended tasks lose their files, and which lose their rows. Unfinished tasks and
// newer ones come first. The tasks are those of an account, the newest first. isFull has the files
// of a kind, or the rows, of a workspace or the account if those of unfinished tasks exceed its
// bound.
func (s *Store) excess(all []*stored) (files, rows []string, isFull map[subject]bool) {
	imports, archives := cmp.Or(s.FileBytes, defaultFileBytes), cmp.Or(s.ArchiveBytes, defaultArchiveBytes)
	used, isFull := map[subject]int64{}, map[subject]bool{}
	fits := func(what string, t *stored, amount, ofWorkspace, ofAccount int64) bool {
		own, total := subject{what, t.Kind, t.WorkspaceID}, subject{what, t.Kind, ""}
		if what != "bytes" {
			own.kind, total.kind = "", ""
		}
		overOwn, overTotal := used[own]+amount > ofWorkspace, used[total]+amount > ofAccount
		if t.FinishedAt != nil && (overOwn || overTotal) {
			return false
		}
		isFull[own], isFull[total] = isFull[own] || overOwn, isFull[total] || overTotal
		used[own] += amount
		used[total] += amount
		return true
	}
	const unbounded = 1 << 60
	for _, ended := range []bool{false, true} {
		for _, t := range all {
			if (t.FinishedAt != nil) != ended {
				continue
			}
			most, ofWorkspace, ofAccount := int64(maxFiles), importsOfWorkspace*imports, importsOfAccount*imports
			if t.Kind == WorkspaceExport {
				most, ofWorkspace, ofAccount = maxArchives, maxArchives*archives, archivesOfAccount*archives
			}
			if t.FileBytes > 0 && (!fits("bytes", t, t.FileBytes, ofWorkspace, ofAccount) ||
				ended && !fits("files of "+string(t.Kind), t, 1, most, unbounded)) {
				files = append(files, t.ID)
			}
			if t.StoredRows > 0 && (!fits("rows", t, t.StoredRows, maxRows, maxRowsOfAccount) ||
				ended && !fits("reports", t, 1, maxReports, unbounded)) {
				rows = append(rows, t.ID)
			}
		}
	}
	return files, rows, isFull
}

// storedOf returns the tasks that store something of the workspaces of an account.
func storedOf(ctx context.Context, tx bun.IDB, account string) (all []*stored, err error) {
	err = tx.NewSelect().Model((*Task)(nil)).
		Column("id", "workspace_id", "kind", "file_bytes", "stored_rows", "finished_at").
		Where("workspace_id = ?0 OR workspace_id IN (SELECT workspace_id FROM members WHERE account_id = ?0)", account).
		Where("file_bytes > 0 OR stored_rows > 0").
		Where(workspace.ResponsibleFor("task.workspace_id")+" = ?", account).Order("id DESC").Scan(ctx, &all)
	if err != nil {
		return nil, fmt.Errorf("reading what tasks store: %w", err)
	}
	return all, nil
}

// responsible returns the account that is responsible for the workspace of a task.
func responsible(ctx context.Context, tx bun.IDB, taskID string) (account string, err error) {
	err = tx.NewSelect().Model((*Task)(nil)).ColumnExpr(workspace.ResponsibleFor("task.workspace_id")).
		Where("id = ?", taskID).Scan(ctx, &account)
	return account, err
}

// reserve reserves the bytes of a file for an upload, which ends the reservation of an earlier one.
// It removes older files, and returns QuotaExceeded if those of unfinished tasks leave no room, and
// Conflict. Concurrent calls for an account wait for each other.
func (s *Store) reserve(ctx context.Context, f file) error {
	err := s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		account, err := responsible(ctx, tx, f.id)
		if err != nil {
			return err
		}
		var locked []string
		if err := s.DB.ForChange(tx.NewSelect().Table("accounts").Column("id").Where("id = ?", account)).
			Scan(ctx, &locked); err != nil {
			return err
		}
		all, err := storedOf(ctx, tx, account)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(t *stored) bool { return t.ID == f.id })
		all = append(all, &stored{ID: f.id, WorkspaceID: f.workspaceID, Kind: f.kind, FileBytes: f.bytes})
		files, _, isFull := s.excess(all)
		if err := full(isFull, f.workspaceID, f.kind, "bytes"); err != nil {
			return err
		}
		if err := deleteFiles(ctx, tx, files); err != nil {
			return err
		}
		n, err := db.Affected(tx.NewUpdate().Model((*Task)(nil)).Set("file_bytes = ?", f.bytes).
			Set("upload = ?", f.upload).Where("id = ?", f.id).Where("status = ?", WaitingForUpload).Exec(ctx))
		if err == nil && n == 0 {
			err = errReceived()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("reserving the bytes of a file: %w", err)
	}
	return nil
}

// adds returns of which subjects a task may store more.
func (h *Holding) adds() []string {
	switch {
	case h.Kind == WorkspaceExport:
		return []string{"bytes"}
	case h.Outside:
		return []string{"bytes", "rows"}
	}
	return []string{"rows"}
}

// full returns QuotaExceeded if a task may not store more of subjects, because the unfinished tasks
// of its workspace or of the account have as much as may be stored.
func full(isFull map[subject]bool, workspaceID string, kind Kind, whats ...string) error {
	has := func(what string, kind Kind) bool {
		return slices.Contains(whats, what) &&
			(isFull[subject{what, kind, workspaceID}] || isFull[subject{what, kind, ""}])
	}
	switch {
	case has("bytes", kind):
		return errs.New(errs.QuotaExceeded, "The files of your unfinished tasks have as many bytes as may be stored. "+
			"Wait until one ends, or cancel one.")
	case has("rows", ""):
		return errs.New(errs.QuotaExceeded, "The reports of your unfinished tasks have as many rows as may be stored. "+
			"Wait until one ends, or cancel one.")
	}
	return nil
}

// admit returns QuotaExceeded for a task that has not begun if the unfinished tasks of its workspace
// or of the account store so much that it may store nothing. One that has begun waits for older
// ones, and fails only if it alone stores more than its workspace may.
func (s *Store) admit(ctx context.Context, h *Holding) error {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), lease.Timeout)
	defer cancel()
	all, err := storedOf(ctx, s.DB, h.account)
	if err != nil {
		return err
	}
	of := func(all ...*stored) error {
		_, _, isFull := s.excess(all)
		return full(isFull, h.WorkspaceID, h.Kind, h.adds()...)
	}
	err = of(all...)
	if err == nil || h.Cursor == "" {
		return err
	}
	own := func(t *stored) bool { return t.ID == h.ID }
	unfinished := slices.DeleteFunc(all, func(t *stored) bool { return t.FinishedAt != nil })
	if err := of(slices.DeleteFunc(slices.Clone(unfinished), func(t *stored) bool { return !own(t) })...); err != nil {
		return err
	}
	if len(unfinished) > 0 && own(unfinished[len(unfinished)-1]) { // all of them would wait for each other
		return nil
	}
	return Later(retryPause)
}

// deleteFiles deletes the files of tasks.
func deleteFiles(ctx context.Context, tx bun.IDB, taskIDs []string) error {
	if len(taskIDs) == 0 {
		return nil
	}
	if _, err := tx.NewDelete().Model((*chunk)(nil)).Where("task_id IN (?)", bun.In(taskIDs)).Exec(ctx); err != nil {
		return fmt.Errorf("deleting the files of tasks: %w", err)
	}
	_, err := tx.NewUpdate().Model((*Task)(nil)).Set("file_bytes = 0").Where("id IN (?)", bun.In(taskIDs)).Exec(ctx)
	return err
}

// trim deletes the claims of a task that has ended. It deletes the rows of old reports of its account
// that exceed the bounds; the counts of these reports stay.
func (s *Store) trim(ctx context.Context, h *Holding) error {
	ctx = db.AsSystem(ctx)
	if err := s.deleteRows(ctx, "import_claims", "claim", h.ID); err != nil {
		return err
	}
	all, err := storedOf(ctx, s.DB, h.account)
	if err != nil {
		return err
	}
	_, rows, _ := s.excess(all)
	for _, taskID := range rows {
		for _, table := range []string{"import_rows", "parity_rows"} {
			if err := s.deleteRows(ctx, table, "number", taskID); err != nil {
				return err
			}
		}
		_, err := s.DB.NewUpdate().Model((*Task)(nil)).Set("stored_rows = 0").Where("id = ?", taskID).Exec(ctx)
		if err != nil {
			return fmt.Errorf("deleting the rows of a task: %w", err)
		}
	}
	return nil
}

// deleteRows deletes the rows of a table of a task, by the second column of the primary key.
func (s *Store) deleteRows(ctx context.Context, table, key, taskID string) error {
	_, err := db.InBatches(deletedAtOnce, func() (int64, error) {
		some := s.DB.NewSelect().Table(table).Column(key).Where("task_id = ?", taskID).Order(key).Limit(deletedAtOnce)
		return db.Affected(s.DB.NewDelete().Table(table).Where("task_id = ?", taskID).
			Where("? IN (?)", bun.Ident(key), some).Exec(ctx))
	})
	if err != nil {
		return fmt.Errorf("deleting rows of a task: %w", err)
	}
	return nil
}

// AddRows counts rows that a step stores, in its transaction. The bounds of workspaces and accounts
// are about them.
func (h *Holding) AddRows(ctx context.Context, tx bun.Tx, n int) error {
	_, err := tx.NewUpdate().Model((*Task)(nil)).Set("stored_rows = stored_rows + ?", n).Where("id = ?", h.ID).Exec(ctx)
	return err
}
