package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// estate creates n workspaces of one account.
func (b *bundle) estate(t *testing.T, name string, n int) (all []workspace.Membership) {
	t.Helper()
	owner := workspacetest.Actor(t, b.DB)
	for i := range n {
		all = append(all, workspacetest.Of(t, b.DB, owner, fmt.Sprint(name, i)))
	}
	return all
}

// start creates tasks of the workspaces.
func (b *bundle) start(t *testing.T, in task.New, of ...workspace.Membership) (all []*task.Task) {
	t.Helper()
	in.Kind, in.Status, in.Input = task.Import, task.Queued, "input"
	for _, m := range of {
		all = append(all, must.Value(b.Create(t.Context(), m, in))(t))
	}
	return all
}

// statusOf returns the state of a task of any workspace.
func (b *bundle) statusOf(t *testing.T, of *task.Task) *task.Task {
	t.Helper()
	return must.Value(b.ByID(t.Context(), of.In, of.ID))(t)[0]
}

// TestRunner_SharesSlotsBetweenAccounts: the tasks of six workspaces of an account hang. Those of
// another account run, on slots for tasks that compute and on those for tasks that wait outside.
func TestRunner_SharesSlotsBetweenAccounts(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, outside := range []bool{false, true} {
			var running, most atomic.Int64
			mine := map[string]bool{}
			hang := make(chan struct{})
			estate := b.estate(t, fmt.Sprint("hang", outside), 6)
			for _, m := range estate {
				mine[m.ID()] = true
			}
			busy := b.start(t, task.New{Outside: outside}, slices.Concat(estate, estate)...)
			stop := b.node(t, 2, func(ctx context.Context, h *task.Holding) error {
				if !mine[h.WorkspaceID] {
					return nil
				}
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				select {
				case <-hang:
				case <-ctx.Done():
				}
				return ctx.Err()
			})
			polltest.Until(t, "the account has its share", func() bool { return running.Load() > 0 })
			others := b.estate(t, fmt.Sprint("quick", outside), 3)
			for _, one := range b.start(t, task.New{Outside: outside}, others...) {
				polltest.Until(t, "a task of another account ends", func() bool {
					return b.statusOf(t, one).Status == task.Succeeded
				})
			}
			want := int64(1)
			if outside {
				want = 2
			}
			if most.Load() != want {
				t.Errorf("outside %t: %d tasks of one account ran at once, want %d", outside, most.Load(), want)
			}
			close(hang)
			for _, one := range busy {
				polltest.Until(t, "each task ends", func() bool { return b.statusOf(t, one).FinishedAt != nil })
			}
			stop()
		}
	})
}

// TestRunner_GoesRoundOverAccounts: with one slot, each account has one turn after another, however
// many tasks and workspaces it has.
func TestRunner_GoesRoundOverAccounts(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		names := map[string]string{}
		start := func(name string, workspaces int) {
			for _, m := range b.estate(t, name, workspaces) {
				names[m.ID()] = name
				b.start(t, task.New{}, m)
				b.passed.Add(int64(time.Second))
			}
		}
		start("many", 3)
		start("few", 2)
		start("one", 1)
		var mu sync.Mutex
		var order []string
		b.node(t, 1, func(_ context.Context, h *task.Holding) error {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, names[h.WorkspaceID])
			return nil
		})
		polltest.Until(t, "all have run", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(order) == 6
		})
		if diff := cmp.Diff("many few one many few many", strings.Join(order, " ")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestRunner_WaitsWithoutASlot: a task that waits for another server is due later, and takes none of
// the slots of those that compute. To wait is no failed attempt.
func TestRunner_WaitsWithoutASlot(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var waits atomic.Int64
		hang := make(chan struct{})
		b.node(t, 1, func(ctx context.Context, h *task.Holding) error {
			switch {
			case h.Outside:
				select {
				case <-hang:
				case <-ctx.Done():
				}
				return errors.Join(ctx.Err(), h.Compute(db.AsSystem(ctx)))
			case h.WorkspaceID == b.m.ID() && waits.Add(1) <= 30:
				return task.Later(time.Minute)
			}
			return nil
		})
		outside := b.start(t, task.New{Outside: true}, b.estate(t, "outside", 1)...)[0]
		waiting := b.create(t)
		polltest.Until(t, "the task waits", func() bool {
			now := b.reload(t, waiting)
			return now.Status == task.Queued && now.DueAt.Equal(b.Store.Now().Add(time.Minute))
		})
		polltest.Until(t, "it ends", func() bool {
			b.passed.Add(int64(time.Minute))
			b.Wake()
			return b.reload(t, waiting).Status == task.Succeeded
		})
		if now := b.statusOf(t, outside); now.Status != task.Running {
			t.Errorf("the task outside is %s", now.Status)
		}
		close(hang)
		polltest.Until(t, "it computes", func() bool {
			now := b.statusOf(t, outside)
			return now.Status == task.Succeeded && !now.Outside
		})
	})
}

// TestRunner_RetriesAsSoonAsAsked the first times, and more slowly then.
func TestRunner_RetriesAsSoonAsAsked(t *testing.T) {
	t.Parallel()
	b := newBundle(t, dbtest.MigratedSQLite(t))
	b.node(t, 1, func(context.Context, *task.Holding) error {
		return errs.New(errs.Unavailable, "The API waits.").After(3 * time.Second)
	})
	refused := b.create(t)
	for attempt := 1; attempt <= 7; attempt++ {
		want := 3 * time.Second
		if attempt > 5 {
			want = time.Duration(attempt) * 10 * time.Second
		}
		var now *task.Task
		polltest.Until(t, "the attempt is over", func() bool {
			now = b.reload(t, refused)
			return now.Attempts == attempt && now.Status == task.Queued
		})
		if got := now.DueAt.Sub(b.Store.Now()); got != want {
			t.Errorf("after attempt %d: due in %s, want %s", attempt, got, want)
		}
		b.passed.Add(int64(want))
		b.Wake()
	}
}

// TestStore_BoundsStoredFiles by their number and bytes, of the workspace and of the account, also
// with many keys.
func TestStore_BoundsStoredFiles(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		succeed := func(context.Context, *task.Holding) error { return nil }
		stop := b.node(t, 1, succeed)
		receive := func(m workspace.Membership, size int) *task.Task {
			one := must.Value(b.Create(t.Context(), m, task.New{Kind: task.Import, Status: task.WaitingForUpload,
				Input: "input", KeepsFile: true}))(t)
			body := strings.NewReader(strings.Repeat("x", size))
			must.NoError(t, b.Receive(t.Context(), m, one.ID, body, int64(size)))
			polltest.Until(t, "the task ends", func() bool { return b.statusOf(t, one).FinishedAt != nil })
			return one
		}
		kept := func(of []workspace.Membership) (files, bytes int) {
			var row struct{ Files, Bytes int }
			ids := []string{}
			for _, m := range of {
				ids = append(ids, m.ID())
			}
			must.NoError(t, b.DB.NewSelect().Table("task_chunks").ColumnExpr("count(DISTINCT task_id) AS files").
				ColumnExpr("sum(length(bytes)) AS bytes").Where("workspace_id IN (?)", bun.In(ids)).
				Scan(db.AsSystem(t.Context()), &row))
			return row.Files, row.Bytes
		}
		estate := b.estate(t, "files", 5)
		keys := []workspace.Membership{estate[0]}
		for range 3 {
			keys = append(keys, workspacetest.Key(t, b.DB, estate[0].ID(), "LINKS_READ", "LINKS_WRITE"))
		}
		var newest *task.Task
		for i := range 24 {
			newest = receive(keys[i%len(keys)], 10)
		}
		if files, _ := kept(estate); files != 20 {
			t.Errorf("a workspace keeps %d small files", files)
		}
		if !must.Value(b.HasFile(db.AsSystem(t.Context()), newest.ID))(t) {
			t.Error("the newest file was removed")
		}
		stop()
		b.FileBytes = 10 // four files of a workspace, 16 of an account
		b.node(t, 1, succeed)
		for _, m := range estate {
			for range 5 {
				receive(m, 10)
			}
		}
		if files, bytes := kept(estate); files != 16 || bytes != 160 {
			t.Errorf("an account keeps %d files of %d bytes", files, bytes)
		}
		if files, bytes := kept(estate[4:]); files != 4 || bytes != 40 {
			t.Errorf("a workspace keeps %d files of %d bytes", files, bytes)
		}
	})
}

// TestReceive_ReservesBytes: concurrent uploads together keep to the bound of a workspace, and files
// of unfinished tasks are not removed.
func TestReceive_ReservesBytes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.FileBytes = 10
		var received, refused atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			one := b.createUpload(t)
			all.Go(func() {
				err := b.Receive(t.Context(), b.m, one.ID, strings.NewReader("0123456789"), 10)
				switch {
				case err == nil:
					received.Add(1)
				case errs.Is(err, errs.QuotaExceeded):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if received.Load() != 4 || refused.Load() != 4 {
			t.Errorf("%d received, %d refused", received.Load(), refused.Load())
		}
	})
}

// TestStore_BoundsStoredRows: old reports of a workspace lose their rows to newer ones.
func TestStore_BoundsStoredRows(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.node(t, 1, func(ctx context.Context, h *task.Holding) error {
			return b.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
				if _, err := tx.NewRaw("INSERT INTO parity_rows (task_id, number, workspace_id, link_id, source_url, "+
					"verdict, status, checked_at) VALUES (?, 1, ?, 'l', 'u', 'SAME', 302, ?)", h.ID, h.WorkspaceID,
					db.Instant(dbtest.Noon)).Exec(ctx); err != nil {
					return err
				}
				return errors.Join(h.AddRows(ctx, tx, 400_000), h.Step(ctx, tx, "x", 1, nil))
			})
		})
		var all []*task.Task
		for range 4 {
			all = append(all, b.create(t))
			b.await(t, all[len(all)-1], task.Succeeded)
		}
		polltest.Until(t, "the rows of the oldest reports are deleted", func() bool {
			return b.reload(t, all[1]).StoredRows == 0
		})
		left := must.Value(b.DB.NewSelect().Table("parity_rows").Count(db.AsSystem(t.Context())))(t)
		if left != 2 || b.reload(t, all[0]).StoredRows != 0 || b.reload(t, all[2]).StoredRows != 400_000 {
			t.Errorf("%d rows are left", left)
		}
	})
}

// TestRunner_WaitsForRoom: what the tasks of a workspace store beyond its bound has no effect on other
// workspaces of the account. A task that begins is refused, and one that has begun waits.
func TestRunner_WaitsForRoom(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.FileBytes = 10
		b.node(t, 1, func(context.Context, *task.Holding) error { return nil })
		for name, c := range map[string]struct {
			// begun is how many rows the task has stored, and others what two tasks have that wait for
			// uploads: older ones, unless isOldest.
			begun, others     int
			ofOther, isOldest bool
			want              task.Status
		}{
			"another workspace is full":        {others: 600_000, ofOther: true, want: task.Succeeded},
			"the account is full":              {others: 1_000_001, ofOther: true, want: task.Failed},
			"the workspace is full":            {others: 600_000, want: task.Failed},
			"full after it has begun":          {begun: 1, others: 600_000, want: task.Queued},
			"the account is, after it":         {begun: 1, others: 1_000_001, ofOther: true, want: task.Queued},
			"full after the oldest has begun":  {begun: 1, others: 600_000, isOldest: true, want: task.Succeeded},
			"full, of the task that has begun": {begun: 1_000_001, ofOther: true, want: task.Failed},
		} {
			t.Run(name, func(t *testing.T) {
				estate := b.estate(t, fmt.Sprintf("room-%d-%d-%t-", c.begun, c.others, c.isOldest || c.ofOther), 2)
				full := estate[0]
				if c.ofOther {
					full = estate[1]
				}
				create := func(m workspace.Membership, set string, args ...any) *task.Task {
					one := must.Value(b.Create(t.Context(), m,
						task.New{Kind: task.Import, Status: task.WaitingForUpload, Input: "input"}))(t)
					must.Value(b.DB.NewUpdate().Table("tasks").Set(set, args...).Where("id = ?", one.ID).
						Exec(db.AsSystem(t.Context())))(t)
					return one
				}
				tested := func() *task.Task {
					if c.begun == 0 {
						return create(estate[0], "stored_rows = 0")
					}
					return create(estate[0], "stored_rows = ?, cursor = 'x'", c.begun)
				}
				var one *task.Task
				if c.isOldest {
					one = tested()
				}
				for range 2 {
					create(full, "stored_rows = ?, file_bytes = 30", c.others)
				}
				if one == nil {
					one = tested()
				}
				must.Value(b.DB.NewUpdate().Table("tasks").Set("status = ?", task.Queued).Where("id = ?", one.ID).
					Exec(db.AsSystem(t.Context())))(t)
				b.Wake()
				var now *task.Task
				polltest.Until(t, "the task has had its turn", func() bool {
					now = b.statusOf(t, one)
					return now.FinishedAt != nil || now.DueAt.After(b.Store.Now())
				})
				if now.Status != c.want || c.want == task.Failed && now.Failure().Kind != errs.QuotaExceeded {
					t.Errorf("%s: %v, want %s", now.Status, now.Failure(), c.want)
				}
				upload := create(estate[0], "file_bytes = 0")
				err := b.Receive(t.Context(), estate[0], upload.ID, strings.NewReader("x"), 1)
				isFull := c.others > 0 && !c.ofOther
				if isFull != errs.Is(err, errs.QuotaExceeded) || !isFull && err != nil {
					t.Errorf("an upload: %v", err)
				}
			})
		}
	})
}
