package wal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// ample is a bound that no test reaches.
const ample = 1 << 30

// create creates a log in a temporary folder with segments of a size.
func create(t testing.TB, turns int64) *Log {
	t.Helper()
	j := createIn(t, t.TempDir(), "one", ample)
	j.turns, j.open = turns, plain
	return j
}

// plain appends by system calls, so that files are as long as their contents.
func plain(path string, _ int64) (tail, error) { return openPlain(path) }

func createIn(t testing.TB, dir, id string, bound int64) *Log {
	t.Helper()
	j := must.Value(Create(dir, id, bound))(t)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// fill appends n records and returns them with where they end.
func fill(t testing.TB, j *Log, n int) []Record {
	t.Helper()
	records := make([]Record, n)
	for i := range records {
		data := fmt.Appendf(nil, "%d:%s", i, strings.Repeat("x", i%50))
		end := must.Value(j.Append(data))(t)
		records[i] = Record{data, end}
	}
	return records
}

// readAll reads from a position to the end, most records at a time.
func readAll(t *testing.T, j *Log, position int64, most int) (records []Record, damaged []byte) {
	t.Helper()
	for {
		c := must.Value(j.Read(position, most))(t)
		records, damaged = append(records, c.Records...), append(damaged, c.Damaged...)
		if len(c.Records) > most {
			t.Errorf("%d records at once, want %d at most", len(c.Records), most)
		}
		if c.Next == position {
			return records, damaged
		}
		position = c.Next
	}
}

func same(a, b Record) bool { return a.End == b.End && bytes.Equal(a.Data, b.Data) }

// leave closes a log and finds it, as the next process does.
func leave(t *testing.T, j *Log) *Log {
	t.Helper()
	must.NoError(t, j.Close())
	found, err := Found(filepath.Dir(j.dir))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d journals found, want 1: %v", len(found), err)
	}
	t.Cleanup(func() { _ = found[0].Close() })
	return found[0]
}

// filesOf are the names of what lies in a folder.
func filesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries := must.Value(os.ReadDir(dir))(t)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestLog_ReadsAppendedRecords(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(string, int64) (tail, error){"by system calls": plain,
		"as the system does best": openTail} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, turns := range []int64{1, 100, 1000, segmentBytes} {
				j := create(t, turns)
				j.open = open
				appendedIsRead(t, j)
			}
		})
	}
}

func appendedIsRead(t *testing.T, j *Log) {
	t.Helper()
	want := fill(t, j, 200)
	if last := want[len(want)-1].End; j.End() != last || j.Bytes() != last {
		t.Errorf("the journal ends at %d and takes %d bytes, want %d", j.End(), j.Bytes(), last)
	}
	for _, most := range []int{1, 7, 200, 5000} {
		got, damaged := readAll(t, j, 0, most)
		if diff := cmp.Diff(want, got); diff != "" || len(damaged) > 0 {
			t.Errorf("segments of %d, %d at a time: %d damaged bytes, records (-want +got):\n%s", j.turns, most,
				len(damaged), diff)
		}
	}
	next := leave(t, j)
	got, damaged := readAll(t, next, 0, 5000)
	if diff := cmp.Diff(want, got); diff != "" || len(damaged) > 0 || next.End() != j.End() || next.ID() != j.ID() {
		t.Errorf("segments of %d, by the next process: %d damaged bytes, records (-want +got):\n%s", j.turns,
			len(damaged), diff)
	}
	for i, record := range want {
		c, err := next.Read(record.End, 1)
		if err != nil || c.Next == record.End != (i == len(want)-1) ||
			len(c.Records) > 0 && c.Records[0].End != want[i+1].End {
			t.Fatalf("segments of %d, after record %d: %+v, %v", j.turns, i, c, err)
		}
	}
}

func TestLog_RefusesUnreadableRecord(t *testing.T) {
	t.Parallel()
	j := create(t, segmentBytes)
	for _, size := range []int{0, MaxRecord + 1} {
		if end, err := j.Append(make([]byte, size)); err == nil || errors.Is(err, ErrFull) || end != 0 {
			t.Errorf("a record of %d bytes ends at %d: %v", size, end, err)
		}
	}
}

func TestLog_IsSafeConcurrently(t *testing.T) {
	t.Parallel()
	j := create(t, 500)
	const writers, each = 8, 300
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for range each {
				if _, err := j.Append([]byte("a record")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	read, position := 0, int64(0)
	for read < writers*each && !t.Failed() {
		c, err := j.Read(position, 100)
		if err != nil || len(c.Damaged) > 0 {
			t.Fatalf("%d damaged bytes: %v", len(c.Damaged), err)
		}
		read, position = read+len(c.Records), c.Next
		must.NoError(t, j.Release(position))
	}
	writing.Wait()
	if position != j.End() {
		t.Errorf("read up to %d, want %d", position, j.End())
	}
}

func TestOrphans_FindsLogsOfDeadProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	alive, dead := createIn(t, dir, "alive", ample), createIn(t, dir, "dead", ample)
	want := fill(t, dead, 10)
	must.NoError(t, dead.SetAside([]byte("beside the journals")))
	find := func(ids ...string) []*Log {
		t.Helper()
		found, err := Found(dir)
		var got []string
		for _, j := range found {
			got = append(got, j.ID())
		}
		if diff := cmp.Diff(ids, got); diff != "" || err != nil {
			t.Fatalf("found (-want +got):\n%s%v", diff, err)
		}
		return found
	}
	find()
	must.NoError(t, dead.Close())
	found := find("dead")[0]
	find() // it is held again
	got, _ := readAll(t, found, 0, 100)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	for _, j := range []*Log{found, alive} {
		must.NoError(t, j.Close())
	}
	for _, j := range find("alive", "dead") {
		_ = j.Close()
	}
	if found, err := Found(filepath.Join(dir, "nowhere")); len(found) > 0 || err != nil {
		t.Errorf("%d journals found in a folder that is not there: %v", len(found), err)
	}
}

func TestOpen_RefusesALockedLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createIn(t, dir, "one", ample)
	if _, err := Create(dir, "one", ample); err == nil {
		t.Error("two have the same journal")
	}
}

// TestOrphans_IgnoresALogBeingCreated: a process that starts keeps its log, even while others
// search for logs of dead processes.
func TestOrphans_IgnoresALogBeingCreated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	done := make(chan struct{})
	var looking sync.WaitGroup
	for range 2 {
		looking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				found, err := Found(dir)
				if err != nil {
					t.Error(err)
				}
				for _, j := range found {
					if err := j.Remove(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range 100 {
		j, err := Create(dir, fmt.Sprint(i), ample)
		if err != nil {
			t.Error(err)
			continue
		}
		must.Value(j.Append([]byte("a record")))(t)
		must.NoError(t, j.Remove())
	}
	close(done)
	looking.Wait()
}

func TestRelease_RemovesWholeSegments(t *testing.T) {
	t.Parallel()
	j := create(t, 300)
	records := fill(t, j, 60)
	begin := int64(0)
	for i, record := range records {
		must.NoError(t, j.Release(record.End))
		got, _ := readAll(t, j, 0, 7)
		if diff := cmp.Diff(records[i+1:], got[max(0, len(got)-len(records[i+1:])):]); diff != "" {
			t.Fatalf("after record %d (-want +got):\n%s", i, diff)
		}
		kept := record.End // of the last record that is not read any more
		if len(got) > 0 {
			kept = got[0].End - int64(headerBytes+len(got[0].Data))
		}
		if kept > record.End || record.End-kept > 300 {
			t.Errorf("after record %d, which ends at %d, the journal begins at %d", i, record.End, kept)
		}
		if begin > kept || j.Bytes() != j.End()-kept {
			t.Errorf("the journal takes %d bytes from %d to %d", j.Bytes(), kept, j.End())
		}
		begin = kept
	}
	if got := filesOf(t, j.dir); len(got) != 3 {
		t.Errorf("%v, want the last segment, the identity and the lock", got)
	}
	next := leave(t, j)
	if next.End() != j.End() || next.Bytes() != j.Bytes() {
		t.Errorf("the next process finds %d bytes up to %d, want %d up to %d", next.Bytes(), next.End(), j.Bytes(),
			j.End())
	}
}

// TestLog_RespectsItsBound: what finds no room is not kept; there is room again once everything has
// been released, however small the bound is.
func TestLog_RespectsItsBound(t *testing.T) {
	t.Parallel()
	record := make([]byte, 92) // 100 bytes
	for _, bound := range []int64{1000, 64 << 10, segmentBytes} {
		j := createIn(t, t.TempDir(), "one", bound)
		for round := range 3 {
			taken := 0
			end, err := j.End(), error(nil)
			for err == nil && taken < 1<<20 {
				if end, err = j.Append(record); err == nil {
					taken++
				}
			}
			if !errors.Is(err, ErrFull) || end != j.End() || j.Bytes() > bound || j.Bytes()+100 <= bound {
				t.Errorf("bound %d, round %d: full at %d bytes: %v", bound, round, j.Bytes(), err)
			}
			if want := int(bound / 100); taken > want || taken < want/2 || round == 0 && taken != want {
				t.Errorf("bound %d, round %d: %d records were taken, want about %d", bound, round, taken, want)
			}
			if got, _ := readAll(t, j, end-int64(taken)*100, 5000); len(got) != taken {
				t.Errorf("bound %d, round %d: %d records were kept, want the %d that were taken", bound, round,
					len(got), taken)
			}
			must.NoError(t, j.Release(end))
		}
	}
}

func TestRemove_DeletesTheLog(t *testing.T) {
	t.Parallel()
	j := create(t, 300)
	fill(t, j, 60)
	must.NoError(t, j.Remove())
	if _, err := os.Stat(j.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	if found, err := Found(filepath.Dir(j.dir)); len(found) > 0 || err != nil {
		t.Errorf("%d journals found: %v", len(found), err)
	}
	if _, err := j.Append([]byte("late")); err == nil {
		t.Error("a journal that was removed took a record")
	}
}

// TestLog_RefusesAppendWhenClosed: another process may hold it by now.
func TestLog_RefusesAppendWhenClosed(t *testing.T) {
	t.Parallel()
	j := create(t, 300)
	want := fill(t, j, 5)
	next := leave(t, j)
	if _, err := j.Append([]byte("late")); err == nil {
		t.Error("a journal that was closed took a record")
	}
	if _, err := next.Append([]byte("late")); err == nil {
		t.Error("a journal that was found took a record")
	}
	if got, damaged := readAll(t, next, 0, 100); !cmp.Equal(want, got) || len(damaged) > 0 {
		t.Errorf("%d records and %d damaged bytes, want %d records", len(got), len(damaged), len(want))
	}
}

func TestSetAside_KeepsRecords(t *testing.T) {
	t.Parallel()
	j := create(t, 300)
	for _, data := range []string{"some", "more"} {
		must.NoError(t, j.SetAside([]byte(data)))
	}
	must.NoError(t, j.Remove())
	if got, err := os.ReadFile(j.dir + ".damaged"); string(got) != "somemore" || err != nil {
		t.Errorf("got %q, want %q: %v", got, "somemore", err)
	}
}

// The environment variable that makes a test of this file the process that another one watches: it
// names the folder of its log.
const folder = "LINKFORGE_TEST_JOURNAL"

// TestLog_ReportsAFullDisk limits the file size of a process. The kernel writes a part of the
// record, as when a disk becomes full, and then nothing.
func TestLog_ReportsAFullDisk(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(folder)
	if dir == "" {
		process := proctest.Self(t, "TestLog_ReportsAFullDisk", folder+"="+t.TempDir())
		if out, err := process.Output(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	j := createIn(t, dir, "one", ample)
	record := make([]byte, 100)
	room := func(most uint64) {
		t.Helper()
		var limit syscall.Rlimit
		err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit)
		limit.Cur = min(most, limit.Max)
		if err = errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)); err != nil {
			t.Fatal(err)
		}
	}
	for filled := range uint64(3) {
		room(10_000 * (filled + 1))
		before := j.End()
		end, err := before, error(nil)
		for err == nil && end < 1<<20 {
			before = end
			end, err = j.Append(record)
		}
		if !errors.Is(err, ErrFull) || end != before || end != j.End() {
			t.Fatalf("full at %d: %v", end, err)
		}
		info, err := os.Stat(j.path(0))
		if err != nil || info.Size() != end {
			t.Errorf("the file has %d bytes, want those of whole records, %d: %v", info.Size(), end, err)
		}
	}
	room(1 << 20)
	end := must.Value(j.Append(record))(t)
	got, damaged := readAll(t, j, 0, 50)
	if int64(len(got))*(headerBytes+100) != end || len(damaged) > 0 {
		t.Errorf("%d records and %d damaged bytes, want %d bytes of records", len(got), len(damaged), end)
	}
}
