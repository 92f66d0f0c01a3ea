package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/click/wal"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
)

// die leaves a recorder's log as a process leaves it that is killed.
func die(t *testing.T, r *ingest.Recorder) {
	t.Helper()
	must.NoError(t, r.Close())
}

// adopted has a new process find what lies in the folder, twice, and checks that no log is left of
// the dead.
func adopted(t *testing.T, d *db.DB, dir string) *ingest.Recorder {
	t.Helper()
	r := clicktest.NewRecorder(t, d, dir)
	for range 2 {
		must.NoError(t, r.Adopt(t.Context()))
	}
	if s := r.Stats(); s.Recent != s.Ingested {
		t.Errorf("%d of %d adopted clicks are recent", s.Recent, s.Ingested)
	}
	if diff := cmp.Diff([]string{r.LogID()}, logs(t, dir)); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
	return r
}

// wantClicks checks a link's clicks in the database, in rollups and one by one.
func wantClicks(t *testing.T, d *db.DB, linkID string, want int64) {
	t.Helper()
	rows, err := d.NewSelect().Model((*click.Row)(nil)).Where("link_id = ?", linkID).Count(db.AsSystem(t.Context()))
	if got := clicktest.ClicksOf(t, d, linkID); got != want || int64(rows) != want || err != nil {
		t.Errorf("%d clicks and %d rows, want %d: %v", got, rows, want, err)
	}
}

func TestAdopt_IngestsOrphanedLogOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, c := range []struct{ ingested, waiting int }{
			{0, 0}, {0, 10}, {10, 0}, {7, 3}, {3, ingest.MaxBatch + 1},
		} {
			dir, linkID := t.TempDir(), id.New(id.Link)
			dead := clicktest.NewRecorder(t, d, dir)
			recordOf(dead, linkID, c.ingested)
			ingestAll(t, dead)
			recordOf(dead, linkID, c.waiting)
			die(t, dead)
			adopted(t, d, dir)
			wantClicks(t, d, linkID, int64(c.ingested+c.waiting))
		}
	})
}

// TestAdopt_ResumesAfterInterruption: the first process that finds the log dies between two
// batches, the second cannot give leases back, the third ends it.
func TestAdopt_ResumesAfterInterruption(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		dir, linkID := t.TempDir(), id.New(id.Link)
		away := errors.New("nobody takes them")
		dead, first := clicktest.NewRecorder(t, d, dir), clicktest.NewRecorder(t, d, t.TempDir())
		second := clicktest.NewLeaseRecorder(t, d, t.TempDir(),
			clicktest.RecoverFunc(func(context.Context, string, []hitquota.Lease) error {
				return away
			}))
		first.Dir, second.Dir = dir, dir
		recordOf(dead, linkID, 10)
		ingestAll(t, dead)
		must.NoError(t, dead.Note(hitquota.Lease{LinkID: linkID, Number: 1, Hits: 1}))
		recordOf(dead, linkID, 2*ingest.MaxBatch)
		die(t, dead)

		found, err := wal.Found(dir)
		if err != nil || len(found) != 1 {
			t.Fatalf("%d logs found, want 1: %v", len(found), err)
		}
		b := must.Value(first.Next(found[0], 0, ingest.MaxBatch))(t)
		must.NoError(t, first.Ingest(t.Context(), b))
		must.NoError(t, found[0].Close())
		wantClicks(t, d, linkID, ingest.MaxBatch-1)

		if err := second.Adopt(t.Context()); !errors.Is(err, away) {
			t.Errorf("adopted with %v, want %v", err, away)
		}
		wantClicks(t, d, linkID, 10+2*ingest.MaxBatch)

		adopted(t, d, dir)
		wantClicks(t, d, linkID, 10+2*ingest.MaxBatch)
	})
}

// TestAdopt_LeavesLiveLogsAlone: each has a log of its own, which the other does not adopt.
func TestAdopt_LeavesLiveLogsAlone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		dir, linkID := t.TempDir(), id.New(id.Link)
		alive, other := clicktest.NewRecorder(t, d, dir), clicktest.NewRecorder(t, d, dir)
		for range 3 {
			dead := clicktest.NewRecorder(t, d, dir)
			recordOf(dead, linkID, 10)
			die(t, dead)
		}
		recordOf(alive, linkID, 100)
		recordOf(other, linkID, 100)
		var both sync.WaitGroup
		for _, r := range []*ingest.Recorder{alive, other} {
			both.Go(func() {
				for range 3 {
					if err := r.Adopt(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		both.Wait()
		wantClicks(t, d, linkID, 30)
		ingestAll(t, alive)
		ingestAll(t, other)
		wantClicks(t, d, linkID, 230)
		if diff := cmp.Diff([]string{alive.LogID(), other.LogID()}, logs(t, dir)); diff != "" {
			t.Errorf("logs (-want +got):\n%s", diff)
		}
	})
}

// counting are leases that count the clicks of logs, for counters.
type counting struct {
	clicktest.RecoverFunc
	counted map[string]click.MonthCount
}

func (c *counting) Carry(_ context.Context, count func(click.Month) (map[string]click.MonthCount, error)) (err error) {
	c.counted, err = count(click.MonthOf(clicktest.Noon))
	return err
}

// TestAdopt_FailingLogDelaysNoOther: one whose leases nobody takes waits by itself, and one that cannot be
// read. The clicks of others count.
func TestAdopt_FailingLogDelaysNoOther(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	dir, linkID, broken := t.TempDir(), id.New(id.Link), errors.New("broken")
	var dead []*ingest.Recorder
	for range 4 {
		r := clicktest.NewRecorder(t, d, dir)
		must.NoError(t, r.Note(hitquota.Lease{LinkID: linkID, Number: 1, Hits: 1}))
		recordOf(r, linkID, 10)
		dead = append(dead, r)
	}
	for _, r := range dead {
		die(t, r)
	}
	segment := must.Value(filepath.Glob(filepath.Join(dir, dead[1].LogID(), "*.log")))(t)[0]
	must.NoError(t, os.Rename(segment, segment+".away"))
	must.NoError(t, os.Mkdir(segment, 0o700))
	leases := &counting{RecoverFunc: func(_ context.Context, logID string, _ []hitquota.Lease) error {
		if logID == dead[0].LogID() {
			return broken
		}
		return nil
	}}
	finder := clicktest.NewLeaseRecorder(t, d, dir, leases)
	for _, waiting := range []int64{30, 0} {
		if err := finder.Adopt(t.Context()); !errors.Is(err, broken) || leases.counted[linkID].Clicks != waiting {
			t.Errorf("adopted with %v, want %v; counted %v", err, broken, leases.counted)
		}
		if diff := cmp.Diff([]string{dead[0].LogID(), dead[1].LogID(), finder.LogID()}, logs(t, dir)); diff != "" {
			t.Errorf("logs (-want +got):\n%s", diff)
		}
		wantClicks(t, d, linkID, 30)
	}
}

// TestAdopt_ReturnsOrphanedLeases: each lease once, with its last recorded state.
func TestAdopt_ReturnsOrphanedLeases(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	dir, linkID, other, month := t.TempDir(), id.New(id.Link), id.New(id.Link), click.MonthOf(clicktest.Noon)
	dead := clicktest.NewRecorder(t, d, dir)
	follow := func(linkID string, hit int64) {
		c := clicktest.ClickOf(linkID)
		c.HitLease = hit
		dead.Record(&c)
	}
	note := func(l hitquota.Lease) {
		t.Helper()
		must.NoError(t, dead.Note(l))
	}
	note(hitquota.Lease{LinkID: linkID, Month: month, Number: 1, Hits: 10})
	follow(other, 1)
	follow(linkID, 1)
	follow(linkID, 0) // without a counter
	ingestAll(t, dead)
	note(hitquota.Lease{LinkID: linkID, Month: month, Number: 3, Hits: 64})
	for range ingest.MaxBatch { // more than one read buffer
		follow(linkID, 3)
	}
	follow(other, 1)
	note(hitquota.Lease{LinkID: other, Month: month, Number: 4, Hits: 7}) // never used
	die(t, dead)

	got := map[int64]hitquota.Lease{}
	finder := clicktest.NewLeaseRecorder(t, d, dir,
		clicktest.RecoverFunc(func(_ context.Context, logID string, leases []hitquota.Lease) error {
			if logID != dead.LogID() || len(got) > 0 {
				t.Errorf("leases of %s given back, %d after those of %s", logID, len(got), dead.LogID())
			}
			for _, l := range leases {
				got[l.Number] = l
			}
			return nil
		}))
	for range 2 {
		must.NoError(t, finder.Adopt(t.Context()))
	}
	want := map[int64]hitquota.Lease{
		1: {LinkID: linkID, Month: month, Number: 1, Hits: 10, Used: 3},
		3: {LinkID: linkID, Month: month, Number: 3, Hits: 64, Used: ingest.MaxBatch},
		4: {LinkID: other, Month: month, Number: 4, Hits: 7},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
}

// The environment variables that make TestRecording_Process a recording process, and the line that
// it prints when it has recorded.
const (
	recordingKind = "LINKFORGE_TEST_RECORDING_KIND"
	recordingURL  = "LINKFORGE_TEST_RECORDING_URL"
	recordingDir  = "LINKFORGE_TEST_RECORDING_DIR"
	recordingLink = "LINKFORGE_TEST_RECORDING_LINK"
	recording     = "recorded"
	// recordingClicks are more than fit into a batch: the process is killed while they are
	// ingested.
	recordingClicks = 4 * ingest.MaxBatch
)

// TestRecording_Process is the process that TestRecorder_KilledProcessLosesNoClick kills; by itself
// it does nothing.
func TestRecording_Process(t *testing.T) {
	t.Parallel()
	kind := db.Kind(os.Getenv(recordingKind))
	if kind == "" {
		return
	}
	r := clicktest.NewRecorder(t, dbtest.Open(t, kind, os.Getenv(recordingURL)), os.Getenv(recordingDir))
	clicktest.Start(t, r)
	recordOf(r, os.Getenv(recordingLink), recordingClicks)
	for r.Position() == 0 {
		progress := r.Progress()
		if r.Position() == 0 {
			<-progress
		}
	}
	fmt.Println(recording)
	select {}
}

func TestRecorder_KilledProcessLosesNoClick(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, kind db.Kind, where string) {
		dir, linkID, d := t.TempDir(), id.New(id.Link), dbtest.Open(t, kind, where)
		for range 2 {
			dbtest.Kill(t, "TestRecording_Process", recording,
				recordingKind+"="+string(kind), recordingURL+"="+where, recordingDir+"="+dir, recordingLink+"="+linkID)
		}
		adopted(t, d, dir)
		wantClicks(t, d, linkID, 2*recordingClicks)
	})
}

// TestAdopt_CopyAddsNothing: a copy of a click log appears, of a process that is alive and of one
// whose log was ingested and removed. Each click is counted once, and no lease of the live process
// ends.
func TestAdopt_CopyAddsNothing(t *testing.T) {
	t.Parallel()
	for _, alive := range []bool{true, false} {
		t.Run(fmt.Sprintf("alive %t", alive), func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				dir, linkID := t.TempDir(), id.New(id.Link)
				original := clicktest.NewRecorder(t, d, dir)
				must.NoError(t, original.Note(hitquota.Lease{LinkID: linkID, Number: 1, Hits: 1}))
				recordOf(original, linkID, 30)
				name := id.New(id.Log)
				if !alive {
					name = original.LogID() // a backup is restored in its old place
				}
				backup := t.TempDir()
				must.NoError(t, os.CopyFS(filepath.Join(backup, name), os.DirFS(filepath.Join(dir, original.LogID()))))
				if alive {
					ingestAll(t, original)
				} else {
					die(t, original)
					adopted(t, d, dir)
				}
				wantClicks(t, d, linkID, 30)
				must.NoError(t, os.CopyFS(dir, os.DirFS(backup)))
				finder := clicktest.NewLeaseRecorder(t, d, t.TempDir(),
					clicktest.RecoverFunc(func(_ context.Context, logID string, leases []hitquota.Lease) error {
						if alive { // else they have no rows any more, and ending them has no effect
							t.Errorf("%d leases of the copied log %s were ended", len(leases), logID)
						}
						return nil
					}))
				finder.Dir = dir
				must.NoError(t, finder.Adopt(t.Context()))
				wantClicks(t, d, linkID, 30)
				if alive {
					recordOf(original, linkID, 5)
					ingestAll(t, original)
					wantClicks(t, d, linkID, 35)
				}
			})
		})
	}
}

// TestRecorder_SurvivesLossOfItsFiles: files of a log in use are removed or truncated. The clicks
// that are gone are counted as lost within a second, and later ones are recorded.
func TestRecorder_SurvivesLossOfItsFiles(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(folder string) error{
		"folder removed": os.RemoveAll,
		"segment removed": func(folder string) error {
			return os.Remove(filepath.Join(folder, "00000000000000000000.log"))
		},
		"segment truncated": func(folder string) error {
			return os.Truncate(filepath.Join(folder, "00000000000000000000.log"), 0)
		},
		"segment cut within a record": func(folder string) error {
			return os.Truncate(filepath.Join(folder, "00000000000000000000.log"), 1000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				dir, linkID := t.TempDir(), id.New(id.Link)
				r := clicktest.NewRecorder(t, d, dir)
				recordOf(r, linkID, 20)
				must.NoError(t, damage(filepath.Join(dir, r.LogID())))
				recordOf(r, linkID, 1000) // into pages that may be gone
				stop := clicktest.Start(t, r)
				polltest.Until(t, "the loss is counted", func() bool { return r.Stats().Lost > 0 })
				recordOf(r, linkID, 7)
				must.NoError(t, r.Flush(t.Context()))
				must.NoError(t, stop())
				lost, counted, aside := r.Stats().Lost, clicktest.ClicksOf(t, d, linkID), r.Stats().Poison
				if lost+counted+aside != 1027 || counted < 7 || aside > 0 && name == "segment cut within a record" {
					t.Errorf("%d clicks are counted, %d reported as lost and %d set aside, want 1027 together", counted,
						lost, aside)
				}
				if left := logs(t, dir); len(left) > 0 {
					t.Errorf("%v stay", left)
				}
			})
		})
	}
}

// TestLog_SyncsAsConfigured: with SyncAlways the position of a click is on the disk when Record
// returns, also for concurrent clicks.
func TestLog_SyncsAsConfigured(t *testing.T) {
	t.Parallel()
	for _, mode := range []ingest.Sync{ingest.SyncOS, ingest.SyncInterval, ingest.SyncAlways} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				linkID := id.New(id.Link)
				l := must.Value(ingest.OpenLog(ingest.LogConfig{
					Dir: t.TempDir(), Sync: mode, Logger: slog.New(slog.DiscardHandler), Now: clicktest.AtNoon,
				}))(t)
				r := ingest.NewRecorder(clicktest.RecorderOf(d, l, nil))
				stop := clicktest.Start(t, r)
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						for range 20 {
							c := clicktest.ClickOf(linkID)
							if end := r.Record(&c); mode == ingest.SyncAlways && r.Synced() < end {
								t.Errorf("the click that ends at %d is answered when %d is on the disk", end,
									r.Synced())
							}
						}
					})
				}
				all.Wait()
				if mode == ingest.SyncInterval {
					polltest.Until(t, "the clicks are on the disk", func() bool { return r.Synced() >= l.End() })
				}
				must.NoError(t, stop())
				if got := clicktest.ClicksOf(t, d, linkID); got != 160 {
					t.Errorf("%d clicks, want 160", got)
				}
			})
		})
	}
}
