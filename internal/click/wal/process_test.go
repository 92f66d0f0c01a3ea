package wal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// The environment variable that makes a test of this file the process that another one watches: it
// names the folder of its log.
const folder = "LINKFORGE_TEST_JOURNAL"

// TestAppender_Process is the process that TestLog_KeepsRecordsOfAKilledProcess kills; by itself it
// does nothing.
func TestAppender_Process(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(folder)
	if dir == "" {
		return
	}
	j := createIn(t, dir, "one", ample)
	j.turns = 10_000
	for i := 0; ; i++ {
		must.Value(j.Append(bytes.Repeat(fmt.Appendf(nil, "%d ", i), 1+i%40)))(t)
		fmt.Println(i)
	}
}

func TestLog_KeepsRecordsOfAKilledProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	process := proctest.Self(t, "TestAppender_Process", folder+"="+dir)
	out, err := process.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, process.Start())
	reported := -1
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if reported, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(err)
		}
		if reported == 3000 {
			if found, err := Found(dir); len(found) > 0 || err != nil {
				t.Errorf("the journal of a process that lives was found: %v", err)
			}
			if err := process.Process.Kill(); err != nil { // SIGKILL
				t.Fatal(err)
			}
		}
	}
	err = process.Wait()
	if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.Exited() {
		t.Fatalf("the process was not killed: %v", err)
	}
	found, err := Found(dir)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d journals found, want 1: %v", len(found), err)
	}
	got, damaged := readAll(t, found[0], 0, 500)
	if reported < 3000 || len(got) <= reported || len(got) > reported+2 || len(damaged) > 0 {
		t.Errorf("%d records and %d damaged bytes, want the %d that were reported, and perhaps one more", len(got),
			len(damaged), reported+1)
	}
	for i, r := range got {
		if want := bytes.Repeat(fmt.Appendf(nil, "%d ", i), 1+i%40); !bytes.Equal(want, r.Data) {
			t.Fatalf("record %d is %q, want %q", i, r.Data, want)
		}
	}
	must.NoError(t, found[0].Remove())
}

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
