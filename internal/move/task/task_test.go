package task_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

var box = secrets.Box{Key: []byte(strings.Repeat("k", 32))}

// bundle is a workspace with tasks, on any number of nodes.
type bundle struct {
	*task.Store
	DB *db.DB
	m  workspace.Membership
	// passed is how far the clock is ahead of dbtest.Noon, in nanoseconds.
	passed atomic.Int64
	// memberErr is the error of MemberOf, and hasLeft is NotFound.
	memberErr error
	hasLeft   atomic.Bool
}

func newBundle(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{DB: d, m: workspacetest.New(t, d, "busy")}
	b.Store = task.NewStore(d, box, func() time.Time { return dbtest.Noon.Add(time.Duration(b.passed.Load())) })
	return b
}

// each runs a test in parallel with others, on both databases.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		test(t, newBundle(t, d))
	})
}

// handler is a handler of one function.
type handler func(ctx context.Context, h *task.Holding) error

func (f handler) Run(ctx context.Context, h *task.Holding) error { return f(ctx, h) }

// node starts a node, and returns a function that stops it.
func (b *bundle) node(t *testing.T, slots int, run handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &task.Runner{
		Store: b.Store, Slots: slots, Handlers: map[task.Kind]task.Handler{task.Import: run},
		Log: slog.New(slog.DiscardHandler),
		MemberOf: func(context.Context, *task.Task) (workspace.Membership, error) {
			if b.hasLeft.Load() {
				return b.m, errs.New(errs.NotFound, "There is no such workspace, or you are not a member of it.")
			}
			return b.m, b.memberErr
		},
	}
	var running sync.WaitGroup
	running.Go(func() { must.NoError(t, r.Run(ctx)) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}

// create creates a task that can run at once.
func (b *bundle) create(t *testing.T) *task.Task {
	t.Helper()
	return must.Value(
		b.Create(t.Context(), b.m, task.New{Kind: task.Import, Status: task.Queued, Input: "input", Source: "CSV"}))(t)
}

// createUpload creates a task that waits for a file.
func (b *bundle) createUpload(t *testing.T) *task.Task {
	t.Helper()
	in := task.New{Kind: task.Import, Status: task.WaitingForUpload, Input: "input"}
	return must.Value(b.Create(t.Context(), b.m, in))(t)
}

func (b *bundle) reload(t *testing.T, of *task.Task) *task.Task {
	t.Helper()
	return must.Value(b.ByID(t.Context(), b.m, of.ID))(t)[0]
}

func (b *bundle) await(t *testing.T, of *task.Task, status task.Status) *task.Task {
	t.Helper()
	var now *task.Task
	polltest.Until(t, "the task is "+string(status), func() bool {
		now = b.reload(t, of)
		return now.Status == status
	})
	return now
}

// step commits a step of a task.
func (b *bundle) step(ctx context.Context, h *task.Holding, cursor string, done int64) error {
	return b.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		return h.Step(ctx, tx, cursor, done, nil)
	})
}

func TestRunner_ContinuesAtTheCursor(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var cursors []string
		isBroken := true
		stop := b.node(t, 1, func(ctx context.Context, h *task.Holding) error {
			cursors = append(cursors, h.Cursor)
			if err := b.step(ctx, h, h.Cursor+"a", h.Done+1); err != nil {
				return err
			}
			if isBroken {
				isBroken = false
				return errors.New("the network is away")
			}
			return nil
		})
		created := b.create(t)
		interrupted := b.await(t, created, task.Queued)
		polltest.Until(t, "the first step is committed", func() bool {
			interrupted = b.reload(t, created)
			return interrupted.Done == 1 && interrupted.Status == task.Queued
		})
		if !interrupted.DueAt.After(dbtest.Noon) {
			t.Error("a task that failed is due at once")
		}
		b.passed.Store(int64(time.Hour))
		b.Wake()
		ended := b.await(t, created, task.Succeeded)
		stop()
		if diff := cmp.Diff([]string{"", "a"}, cursors); diff != "" || ended.Cursor != "aa" || ended.Done != 2 {
			t.Errorf("cursors (-want +got):\n%s, at the end %q, %d done", diff, ended.Cursor, ended.Done)
		}
		events := must.Value(audit.List(db.AsSystem(t.Context()), b.DB, b.m.ID(),
			&audit.Filter{Actions: []audit.Action{audit.TaskStarted, audit.TaskFinished}}, page.Request{Size: 10}))(t)
		var said []string
		for _, e := range events.Items {
			said = append(said, fmt.Sprint(e.Action, " ", e.TargetID == created.ID, " ", e.Details))
		}
		if diff := cmp.Diff([]string{
			`TASK_FINISHED true {"done":2,"kind":"IMPORT","status":"SUCCEEDED"}`,
			`TASK_STARTED true {"kind":"IMPORT","source":"CSV"}`,
		}, said); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestRunner_CommitsNothingWithoutLease has another node take the task of one that hangs.
func TestRunner_CommitsNothingWithoutLease(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		hangs, proceed := make(chan struct{}), make(chan struct{})
		var late error
		first := b.node(t, 1, func(ctx context.Context, h *task.Holding) error {
			close(hangs)
			<-proceed
			late = b.step(context.WithoutCancel(ctx), h, "late", 100) // the node may not have noticed
			return late
		})
		created := b.create(t)
		<-hangs
		b.passed.Store(int64(2 * time.Minute))
		b.Wake()
		second := b.node(t, 1, func(ctx context.Context, h *task.Holding) error { return b.step(ctx, h, "b", 1) })
		ended := b.await(t, created, task.Succeeded)
		close(proceed)
		first()
		second()
		if late == nil {
			t.Error("a node without the lease has committed a step")
		}
		if now := b.reload(t, created); now.Cursor != "b" || now.Done != 1 || !now.FinishedAt.Equal(*ended.FinishedAt) {
			t.Errorf("%+v", now)
		}
	})
}

// TestRunner_TakesOverFromADeadNode at once when its lease has ended, or when its clock was ahead.
func TestRunner_TakesOverFromADeadNode(t *testing.T) {
	ahead := func(lease, due time.Duration) func(*testing.T, *bundle) {
		return func(t *testing.T, b *bundle) {
			must.Value(b.DB.ExecContext(db.AsSystem(t.Context()), "UPDATE tasks SET lease_until = ?, due_at = ?",
				dbtest.Noon.Add(lease), dbtest.Noon.Add(due)))(t)
		}
	}
	for name, c := range map[string]struct {
		then func(*testing.T, *bundle)
		runs bool
	}{
		"alive":                  {ahead(30*time.Second, 0), false},
		"its lease has ended":    {ahead(0, 0), true},
		"the instance restarts":  {func(t *testing.T, b *bundle) { must.NoError(t, b.EndLeases(t.Context())) }, true},
		"a lease of tomorrow":    {ahead(24*time.Hour, 0), true},
		"a pause of tomorrow":    {ahead(0, 24*time.Hour), true},
		"a pause that is usual":  {ahead(0, 2*time.Hour), false},
		"both three hours ahead": {ahead(3*time.Hour, 3*time.Hour), true},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, b *bundle) {
				created := b.create(t)
				must.Value(b.DB.ExecContext(db.AsSystem(t.Context()),
					"UPDATE tasks SET status = 'RUNNING', lease_holder = 'dead', lease_until = ?",
					dbtest.Noon.Add(30*time.Second)))(t)
				c.then(t, b)
				b.node(t, 1, func(ctx context.Context, h *task.Holding) error { return b.step(ctx, h, "a", 1) })
				if c.runs {
					b.await(t, created, task.Succeeded)
				} else if got := b.reload(t, created); got.Done != 0 {
					t.Errorf("it runs: %+v", got)
				}
			})
		})
	}
}

func TestRunner_RunsOneOfAWorkspace(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var running, most atomic.Int64
		for range 3 {
			b.node(t, 2, func(ctx context.Context, h *task.Holding) error {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer running.Add(-1)
				return b.step(ctx, h, "x", 1)
			})
		}
		var all []*task.Task
		for range 10 {
			all = append(all, b.create(t))
		}
		for _, one := range all {
			b.await(t, one, task.Succeeded)
		}
		if most.Load() != 1 {
			t.Errorf("%d tasks ran at once", most.Load())
		}
	})
}

// TestRunner_TakesTurnsBetweenSteps: a task completes a step that lasts longer than its turn, then
// others are served.
func TestRunner_TakesTurnsBetweenSteps(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.SetTurn(time.Millisecond, 5*time.Millisecond)
		long, order := b.create(t), make(chan string, 100)
		b.node(t, 1, func(ctx context.Context, h *task.Holding) error {
			if h.ID != long.ID {
				order <- "other"
				return nil
			}
			for done := h.Done + 1; done <= 3; done++ {
				if done == 1 { // others wait from now on
					other := workspacetest.New(t, b.DB, "other")
					must.Value(b.Create(t.Context(), other,
						task.New{Kind: task.Import, Status: task.Queued, Input: "input"}))(t)
				}
				b.passed.Add(int64(time.Second))
				if err := poll.Wait(ctx, 300*time.Millisecond); err != nil {
					order <- "cut off"
					return err
				}
				if err := b.step(ctx, h, "x", done); err != nil {
					return err
				}
				order <- "step"
				if err := h.Rest(ctx, 0); err != nil {
					return err
				}
			}
			return nil
		})
		ended := b.await(t, long, task.Succeeded)
		close(order)
		var got []string
		for one := range order {
			got = append(got, one)
		}
		if diff := cmp.Diff([]string{"step", "other", "step", "step"}, got); diff != "" || ended.Attempts > 1 {
			t.Errorf("after %d attempts (-want +got):\n%s", ended.Attempts, diff)
		}
	})
}

func TestRunner_EndsTasksThatFail(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		outcome := error(errs.New(errs.InvalidInput, "The file is not of the source."))
		b.node(t, 1, func(context.Context, *task.Holding) error { return outcome })
		failed := b.await(t, b.create(t), task.Failed)
		if f := failed.Failure(); f == nil || f.Kind != errs.InvalidInput ||
			f.Message != "The file is not of the source." {
			t.Errorf("failure %v", f)
		}
		outcome = errors.New("secret of the database")
		hopeless := b.create(t)
		polltest.Until(t, "there are no more attempts", func() bool {
			b.passed.Add(int64(time.Hour))
			b.Wake()
			return b.reload(t, hopeless).Status == task.Failed
		})
		hopeless = b.reload(t, hopeless)
		if f := hopeless.Failure(); hopeless.Attempts != 20 || f.Kind != errs.Internal ||
			f.Message == "secret of the database" {
			t.Errorf("after %d attempts: %v", hopeless.Attempts, f)
		}
		outcome = errs.New(errs.Unavailable, "The API waits.").After(2 * time.Hour)
		waiting := b.create(t)
		polltest.Until(t, "the task is to wait", func() bool {
			now := b.reload(t, waiting)
			return now.Status == task.Queued && now.DueAt.Equal(b.Store.Now().Add(2*time.Hour))
		})
		must.Value(b.Cancel(t.Context(), b.m, waiting.ID))(t)
		outcome = nil
		for _, kind := range []errs.Kind{errs.Forbidden, errs.Unauthenticated} { // the latter for a key that has ended
			b.memberErr = errs.New(kind, "not any more")
			in := task.New{Kind: task.Import, Status: task.Queued, Input: "input", Secret: []byte("s")}
			one := must.Value(b.Create(t.Context(), b.m, in))(t)
			if f := b.await(t, one, task.Failed).Failure(); f.Kind != errs.Forbidden {
				t.Errorf("failure %v of an actor without permission", f)
			}
		}
		withSecret := b.DB.NewSelect().Table("tasks").Where("secret IS NOT NULL")
		if n := must.Value(withSecret.Count(db.AsSystem(t.Context())))(t); n != 0 {
			t.Errorf("%d ended tasks have secrets", n)
		}
		b.memberErr = errs.New(errs.NotFound, "deleted")
		b.await(t, b.create(t), task.Canceled)
	})
}

// TestRunner_EndsTasksOfMembersWhoLeave while it runs them.
func TestRunner_EndsTasksOfMembersWhoLeave(t *testing.T) {
	t.Parallel()
	b := newBundle(t, dbtest.MigratedSQLite(t))
	b.node(t, 1, func(ctx context.Context, _ *task.Holding) error {
		b.hasLeft.Store(true)
		<-ctx.Done()
		return ctx.Err()
	})
	b.await(t, b.create(t), task.Canceled)
}

func TestCancel_EndsTasks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBundle(t, d)
		waiting := b.create(t)
		if c := must.Value(b.Cancel(t.Context(), b.m, waiting.ID))(t); c.Status != task.Canceled {
			t.Errorf("a waiting task is %s", c.Status)
		}
		begun := make(chan struct{})
		b.node(t, 1, func(ctx context.Context, h *task.Holding) error {
			close(begun)
			for n := int64(1); ; n++ {
				if err := b.step(ctx, h, "x", n); err != nil {
					return err
				}
			}
		})
		running := b.create(t)
		<-begun
		must.Value(b.Cancel(t.Context(), b.m, running.ID))(t)
		canceled := b.await(t, running, task.Canceled)
		must.Value(b.Cancel(t.Context(), b.m, running.ID))(t)
		if now := b.reload(t, running); now.Done != canceled.Done || !now.FinishedAt.Equal(*canceled.FinishedAt) {
			t.Errorf("canceling an ended task changed it: %+v", now)
		}
		if _, err := b.Cancel(t.Context(), workspacetest.New(t, d, "other"), running.ID); !errs.Is(err, errs.NotFound) {
			t.Errorf("another workspace: %v", err)
		}
	})
}

func TestCreate_BoundsUnfinishedTasks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var created, refused atomic.Int64
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				_, err := b.Create(t.Context(), b.m, task.New{Kind: task.Import, Status: task.Queued, Input: "input"})
				switch {
				case err == nil:
					created.Add(1)
				case errs.Is(err, errs.QuotaExceeded):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if created.Load() != 20 || refused.Load() != 20 {
			t.Errorf("%d created, %d refused", created.Load(), refused.Load())
		}
	})
}

func TestReceive_StoresOneFile(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		file := bytes.Repeat([]byte("0123456789"), 350_000)
		created := b.createUpload(t)
		receive := func(r io.Reader) error {
			return b.Receive(t.Context(), b.m, created.ID, r, int64(len(file)))
		}
		broken := io.MultiReader(bytes.NewReader(file[:2_500_000]), iotest.ErrReader(io.ErrUnexpectedEOF))
		if err := receive(broken); !errs.Is(err, errs.BadRequest) {
			t.Errorf("an interrupted upload: %v", err)
		}
		if now := b.reload(t, created); now.Status != task.WaitingForUpload {
			t.Errorf("after an interrupted upload, the task is %s", now.Status)
		}
		var received atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := receive(bytes.NewReader(file)); err == nil {
					received.Add(1)
				} else if !errs.Is(err, errs.Conflict) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if received.Load() == 0 { // each upload may have ended another one
			must.NoError(t, receive(bytes.NewReader(file)))
		} else if received.Load() > 1 {
			t.Errorf("%d uploads were received", received.Load())
		}
		if err := receive(bytes.NewReader(file)); !errs.Is(err, errs.Conflict) {
			t.Errorf("a second upload: %v", err)
		}
		must.NoError(t, iotest.TestReader(must.Value(b.OpenFile(db.AsSystem(t.Context()), created.ID))(t), file))
	})
}

func TestCleanUp_DeletesWhatIsOld(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		late := b.createUpload(t)
		ended := b.createUpload(t)
		must.NoError(t, b.Receive(t.Context(), b.m, ended.ID, bytes.NewReader([]byte("x")), 1))
		must.Value(b.Cancel(t.Context(), b.m, ended.ID))(t)
		hasFile := func() bool { return must.Value(b.HasFile(db.AsSystem(t.Context()), ended.ID))(t) }
		for _, step := range []struct {
			passed  time.Duration
			tasks   int
			hasFile bool
			status  task.Status
		}{
			{59 * time.Minute, 2, false, task.WaitingForUpload}, // that of a canceled task is deleted at once
			{61 * time.Minute, 2, false, task.Canceled},
			{8 * 24 * time.Hour, 2, false, task.Canceled},
			{32 * 24 * time.Hour, 0, false, ""},
		} {
			b.passed.Store(int64(step.passed))
			must.NoError(t, b.CleanUp(t.Context()))
			p := must.Value(b.List(t.Context(), b.m, task.Filter{}, page.Request{Size: 10}))(t)
			if len(p.Items) != step.tasks || hasFile() != step.hasFile {
				t.Errorf("after %s: %d tasks, has file %t", step.passed, len(p.Items), hasFile())
			}
			if step.status != "" && b.reload(t, late).Status != step.status {
				t.Errorf("after %s: %s", step.passed, b.reload(t, late).Status)
			}
		}
	})
}

// beginUpload begins an upload, which waits before a byte until goOn is closed.
func (b *bundle) beginUpload(
	t *testing.T, of *task.Task, file []byte, at int64,
) (goOn chan<- struct{}, ended <-chan error) {
	t.Helper()
	begun, wait, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	body := &waiting{Reader: bytes.NewReader(file), at: at, reached: begun, goOn: wait}
	go func() { result <- b.Receive(t.Context(), b.m, of.ID, body, int64(len(file))) }()
	<-begun
	return wait, result
}

func (b *bundle) wantFile(t *testing.T, of *task.Task, want []byte) {
	t.Helper()
	file := must.Value(b.OpenFile(db.AsSystem(t.Context()), of.ID))(t)
	if got := must.Value(io.ReadAll(file))(t); !bytes.Equal(got, want) {
		t.Errorf("the file has %d bytes", len(got))
	}
}

// TestReceive_IgnoresLateUploads: an upload that continues after another one was received changes
// nothing.
func TestReceive_IgnoresLateUploads(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		created := b.createUpload(t)
		goOn, ended := b.beginUpload(t, created, bytes.Repeat([]byte("b"), 3<<20), 1<<20+1)
		file := []byte("the file")
		must.NoError(t, b.Receive(t.Context(), b.m, created.ID, bytes.NewReader(file), int64(len(file))))
		close(goOn)
		if err := <-ended; !errs.Is(err, errs.Conflict) {
			t.Errorf("the late upload: %v", err)
		}
		b.wantFile(t, created, file)
	})
}

// TestReceive_RefusesOvertakenUploads whose beginning a later upload, which has not ended, has
// deleted.
func TestReceive_RefusesOvertakenUploads(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		created, file := b.createUpload(t), bytes.Repeat([]byte("b"), 3<<20)
		first, firstEnded := b.beginUpload(t, created, bytes.Repeat([]byte("a"), 3<<20), 1<<20+1)
		second, secondEnded := b.beginUpload(t, created, file, 1<<20+1)
		close(first)
		if err := <-firstEnded; !errs.Is(err, errs.Conflict) {
			t.Errorf("the first upload: %v", err)
		}
		close(second)
		must.NoError(t, <-secondEnded)
		b.wantFile(t, created, file)
	})
}

// TestReceive_ReservesForOneUpload: an upload that another one overtakes before its first byte stores
// nothing, also if the other one, for which fewer bytes are reserved, breaks off.
func TestReceive_ReservesForOneUpload(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		created := b.createUpload(t)
		goOn, ended := b.beginUpload(t, created, make([]byte, 1<<20), 1)
		if err := b.Receive(t.Context(), b.m, created.ID, strings.NewReader(""), 1); !errs.Is(err, errs.BadRequest) {
			t.Errorf("the upload that breaks off: %v", err)
		}
		close(goOn)
		if err := <-ended; !errs.Is(err, errs.Conflict) {
			t.Errorf("the overtaken upload: %v", err)
		}
		chunks := must.Value(b.DB.NewSelect().Table("task_chunks").Count(db.AsSystem(t.Context())))(t)
		if now := b.reload(t, created); chunks != 0 || now.Status != task.WaitingForUpload || now.FileBytes != 1 {
			t.Errorf("%d chunks, the task is %s with %d bytes", chunks, now.Status, now.FileBytes)
		}
	})
}

// waiting is a reader that waits at a position.
type waiting struct {
	*bytes.Reader
	at      int64
	reached chan<- struct{}
	goOn    <-chan struct{}
}

func (w *waiting) Read(into []byte) (int, error) {
	if w.reached != nil && w.Size()-int64(w.Len()) >= w.at-1 {
		close(w.reached)
		w.reached = nil
		<-w.goOn
	}
	return w.Reader.Read(into)
}
